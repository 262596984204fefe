"""Figures for print, and self-contained HTML pages of experiments and models."""

from typing import TYPE_CHECKING

from romdp.core.lazy import lazy

if TYPE_CHECKING:
    from romdp.reports.experiment_page import write_report as write_report
    from romdp.reports.figures import emission_figure as emission_figure
    from romdp.reports.figures import flow_figure as flow_figure
    from romdp.reports.figures import groups_figure as groups_figure
    from romdp.reports.figures import regret_figure as regret_figure
    from romdp.reports.figures import save_figure as save_figure
    from romdp.reports.figures import write_figures as write_figures
    from romdp.reports.model_page import write_model_page as write_model_page
    from romdp.reports.reading import Results as Results
    from romdp.reports.reading import read_results as read_results

__getattr__, __dir__, __all__ = lazy(__name__, __file__)
