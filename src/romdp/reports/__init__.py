"""Looking at it: figures for print, and self-contained HTML pages of experiments and models."""

from typing import TYPE_CHECKING

from romdp.lazy import lazy

if TYPE_CHECKING:
    from romdp.reports.figures import (
        emission_figure,
        flow_figure,
        groups_figure,
        regret_figure,
        save_figure,
        write_figures,
    )
    from romdp.reports.modelpage import write_model_page
    from romdp.reports.page import write_report
    from romdp.reports.reading import Results, read_results

__all__ = [
    "Results",
    "emission_figure",
    "flow_figure",
    "groups_figure",
    "read_results",
    "regret_figure",
    "save_figure",
    "write_figures",
    "write_model_page",
    "write_report",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "Results": "reading",
        "emission_figure": "figures",
        "flow_figure": "figures",
        "groups_figure": "figures",
        "read_results": "reading",
        "regret_figure": "figures",
        "save_figure": "figures",
        "write_figures": "figures",
        "write_model_page": "modelpage",
        "write_report": "page",
    },
)
