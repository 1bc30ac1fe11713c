"""Tables of instances: columns, features, labels and bags of what others wrote."""
