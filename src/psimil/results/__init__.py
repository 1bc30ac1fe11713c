"""What predictions say: scores, referrals, the features that tell, files of results, feedback."""
