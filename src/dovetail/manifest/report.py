"""What was found in one document."""

from dataclasses import dataclass

from dovetail.model.kube_object import Fault


@dataclass(frozen=True, slots=True)
class Report:
    """Faults and warnings of one document. `note` says why nothing was checked, where that is so."""

    kind: str = ""
    name: str = ""
    faults: tuple[Fault, ...] = ()
    warnings: tuple[Fault, ...] = ()
    note: str = ""

    @property
    def valid(self) -> bool:
        """Whether there is no fault; warnings do not count."""
        return not self.faults


class DocumentInvalid(ValueError):
    """A document that cannot become a value; the report has every fault."""

    def __init__(self, report: Report) -> None:
        super().__init__("; ".join(map(str, report.faults)) or report.note)
        self.report = report
