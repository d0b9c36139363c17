"""From recorded parts to a page, a table, a plot and a summary."""

from ecumene.sim.reporting.experiment import ExperimentReport, report_experiment
from ecumene.sim.reporting.numbers import GuessRecording, ReportError, read_guess_recording
from ecumene.sim.reporting.pages import REPORT_NAME, write_report
from ecumene.sim.reporting.references import Reference, list_references
from ecumene.sim.reporting.report import PLOT_NAME, SUMMARY_NAME, GuessReport, report_guess_run
from ecumene.sim.reporting.rounds import RoundRow, summarise_rounds
from ecumene.sim.reporting.terminal import build_round_table, render_report

__all__ = [
    "PLOT_NAME",
    "REPORT_NAME",
    "SUMMARY_NAME",
    "ExperimentReport",
    "GuessRecording",
    "GuessReport",
    "Reference",
    "ReportError",
    "RoundRow",
    "build_round_table",
    "list_references",
    "read_guess_recording",
    "render_report",
    "report_experiment",
    "report_guess_run",
    "summarise_rounds",
    "write_report",
]
