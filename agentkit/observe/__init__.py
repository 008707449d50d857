"""Shows people and programs what runs do. Nothing here is imported unless it is asked for.

otel.py     traces and metrics with OpenTelemetry; semconv.py: all names; otel_run.py, otel_chat.py,
            otel_metrics.py, otel_content.py, otel_errors.py: its parts
logs.py     structured logs; run_log.py: a record for each step; secrets.py: what is taken out
several.py  more than one of these at once; within.py: contexts that readers do not see
watch.py    the live view of a team; team_view.py: what it shows
report.py   the cache report on a terminal; amounts.py: tokens and money in words
"""
