"""What a Celery worker is started with: `celery --app knowledge_pipeline.defs.celery_app worker`.

Dagster's own application and task, with the settings that the executor submits by, so that the two
cannot differ. The definitions are loaded by the first task, in the worker's child: its parent forks, and
must have opened no table.
"""

# dagster_celery has no types.
# pyright: reportUnknownVariableType=false
import os

from dagster_celery.make_app import make_app
from dagster_celery.tasks import create_task

from knowledge_pipeline.defs.runs import BROKER_VARIABLE, CELERY_SETTINGS
from knowledge_pipeline.errors import ConfigError

if not os.environ.get(BROKER_VARIABLE):
    raise ConfigError(f"{BROKER_VARIABLE} is not set: set it to the broker's address")

app = make_app({"broker": os.environ[BROKER_VARIABLE], "backend": "rpc://", "config_source": CELERY_SETTINGS})
execute_plan = create_task(app)
