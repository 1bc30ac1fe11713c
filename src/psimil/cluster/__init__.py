"""Fits and predictions on a Dask cluster of like machines, with the bits of one process with the same parts.

The rows of a data set are divided into shards of whole bags (``chunk_size`` instances each, about). Workers hold the
shards; in every pass they are told q(v) and answer with sums of size M x M, which are added up in the order of the
shards. The number of workers changes nothing, nor does a worker that dies, is restarted or hangs: its shards are worked
out elsewhere. (Workers whose processors or BLAS differ from one another's may differ in the last digits.)

On this machine::

    from distributed import Client
    client = Client(n_workers=8, threads_per_worker=1)
    model = VGPMIL(chunk_size=16_384, random_state=0).fit(open_store("store"), y, client=client)

On a cluster, start the scheduler on one machine and workers on the others, all with the same psimil, then the fit::

    dask scheduler
    dask worker tcp://host:8786 --nthreads 1 --nworkers auto
    psimil fit STORE --cluster tcp://host:8786 --checkpoint fit.part --out RUN

Workers read a store themselves: it must lie under the same path everywhere. Other bags are sent to them once.
Under a job queue the two commands are jobs; with SLURM::

    sbatch --wrap "dask scheduler --scheduler-file ~/dask.json"
    sbatch --array 1-20 --wrap "dask worker --scheduler-file ~/dask.json --nthreads 1"

The address is in the file ``dask.json``. Workers may come and go while a fit runs. When the scheduler is lost the fit
ends with :class:`psimil.foundations.errors.ClusterFailure`; the same command goes on from the checkpoint.

A Dask cluster runs whatever anyone sends it: keep its ports within a network that you trust, or encrypt it. With
``--tls-ca-file``, ``--tls-cert`` and ``--tls-key`` for ``dask scheduler`` and ``dask worker`` its address begins with
``tls://``, and only those with a certificate of that authority get in. Fits and commands take their own files from
Dask's configuration (``distributed.comm.tls.ca-file``, ``distributed.comm.tls.client.cert`` and ``.key``), or from the
``distributed.Security`` given to :func:`connect`. Results that workers make up are not looked for.
"""

from psimil.cluster.checkpoint import Checkpoint
from psimil.cluster.dask_shards import DaskShards
from psimil.cluster.scoring import predict_bags, predict_ranges
from psimil.cluster.workforce import connect

__all__ = ["Checkpoint", "DaskShards", "connect", "predict_bags", "predict_ranges"]
