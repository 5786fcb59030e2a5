from pytest_failure_taxonomy.bench.answers import Answer as Answer
from pytest_failure_taxonomy.bench.isolate.code import CodeResult as CodeResult
from pytest_failure_taxonomy.bench.isolate.code import run_code as run_code
from pytest_failure_taxonomy.bench.load.task_class import (
    load_task_class as load_task_class,
)
from pytest_failure_taxonomy.bench.models import BenchCase as BenchCase
from pytest_failure_taxonomy.bench.models import BenchRunReport as BenchRunReport
from pytest_failure_taxonomy.bench.models import BenchScore as BenchScore
from pytest_failure_taxonomy.bench.models import FailureMode as FailureMode
from pytest_failure_taxonomy.bench.models import RunPlan as RunPlan
from pytest_failure_taxonomy.bench.models import TaskClass as TaskClass
from pytest_failure_taxonomy.bench.report import aggregate as aggregate
from pytest_failure_taxonomy.bench.report import evaluate_gate as evaluate_gate
from pytest_failure_taxonomy.bench.run.runner import Runner as Runner
