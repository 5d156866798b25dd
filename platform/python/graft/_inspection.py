"""What is known of models, plans, devices and kept runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

from . import _graft
from ._owned import Owned
from ._tensors import Memory, fill, taken
from ._trainer import Forecast

if TYPE_CHECKING:
    from ._model import Context, Model


class Layer(NamedTuple):
    """A node of a model's graph."""

    name: str
    op: str
    shape: str  #: of its first output, as in "[batch, 10]"
    parameters: int  #: elements that are trained
    bytes: int  #: of weights
    flops: int  #: forward


class PlanNode(NamedTuple):
    """What runs; fused nodes as one."""

    name: str
    op: str
    backward: bool  #: it serves a forward node
    recomputed: bool  #: it repeats one
    flops: int
    bytes: int  #: read and written
    scratch_bytes: int  #: workspace
    live_bytes: int  #: of results that are in memory while it runs
    dispatches: int


class PlanValue(NamedTuple):
    """A value, and where in memory it lies while which nodes run."""

    name: str
    memory_class: str  #: "weights", "activations", ... as the fields of Memory
    offset: int
    bytes: int
    first: int  #: the node that needs it first
    last: int  #: and last
    saved: bool  #: it outlives the forward pass for the backward pass


class PlanPoint(NamedTuple):
    """One choice between memory and work: some results are computed again in the backward pass."""

    bytes: int  #: of the whole run, at least
    extra_flops: int
    extra_bytes: int  #: read and written
    recomputed: int


class Plan(NamedTuple):
    """What a session or a trainer would do."""

    forecast: Forecast
    nodes: list[PlanNode]  #: in the order in which they run
    values: list[PlanValue]
    curve: list[PlanPoint]  #: by falling memory, where it was asked for


def plan_of(told: Any) -> Plan:
    native = told["forecast"]
    forecast = Forecast(taken(Memory, native), native.flops, native.extra_flops, native.micro_batch, native.recomputed,
                        told["explanation"])
    return Plan(forecast, [PlanNode(*one) for one in told["nodes"]], [PlanValue(*one) for one in told["values"]],
                [PlanPoint(*one) for one in told["curve"]])


class NodeVerdict(NamedTuple):
    """What became of one node that was compared with double precision."""

    node: str
    op: str
    forward: float  #: largest difference over the outputs' root mean square
    gradient: float  #: the same of gradients; -1: the op has none
    failure: str  #: why it could not be compared
    passed: bool


class Damage(NamedTuple):
    """Bytes of a weight that are not what the file's checksums say."""

    weight: str
    first_byte: int
    last_byte: int


class KernelVerdict(NamedTuple):
    """What a kernel did with a known answer."""

    kernel: str
    verdict: str  #: "passed", "failed" or "untested"
    why: str


def kernel_verdicts(found: Any) -> list[KernelVerdict]:
    return [KernelVerdict(kernel, ("passed", "failed", "untested")[verdict], why) for kernel, verdict, why in found]


class Quirk(NamedTuple):
    """A fault of a driver that graft works around."""

    name: str
    action: str
    reason: str
    link: str


class Device(NamedTuple):
    """A device that can run graft."""

    name: str
    driver: str
    driver_info: str
    type: str  #: "other", "integrated", "discrete", "virtual" or "cpu"
    vendor_id: int
    device_id: int
    api_version: tuple[int, int, int]  #: of Vulkan
    memory: int  #: bytes of all heaps of the device
    largest_heap: int  #: that plans live in
    unified_memory: bool  #: shared with the host
    timestamps: bool
    features: dict[str, bool]
    limits: dict[str, list[int]]
    matrices: list[str]  #: as in "matrices of f16 16x16x16"
    quirks: list[Quirk]


def devices(*, vulkan_library: Optional[Union[str, "os.PathLike[str]"]] = None) -> list[Device]:
    """The devices that can run graft, in the loader's order; none of them is opened."""
    options = fill(_graft.ContextOptions(), vulkan_library=None if vulkan_library is None else os.fspath(vulkan_library))
    types = ("other", "integrated", "discrete", "virtual", "cpu")
    return [Device(**{**one, "type": types[one["type"]], "quirks": [Quirk(*quirk) for quirk in one["quirks"]]})
            for one in _graft.find_devices(options)]


class Snapshot(NamedTuple):
    """One snapshot of a run."""

    number: int
    step: int  #: optimizer steps done
    loss: float  #: of the last step
    made_ms: int
    bytes: int  #: of the state, decoded
    stored_bytes: int  #: of all that it needs, however many snapshots share it
    own_bytes: int  #: of what no other snapshot needs
    tags: list[str]
    is_head: bool  #: training goes on from here


class StreamDifference(NamedTuple):
    """One tensor, or another part of the state, in two snapshots."""

    name: str
    worker: int
    difference: str  #: "same", "changed", "only_in_first" or "only_in_second"
    bytes_in_first: int
    bytes_in_second: int
    changed_bytes: int  #: at most: whole chunks are compared


class Store(Owned):
    """The folder of a run, open to be read and tidied; made by Context.open_store().

    A snapshot is named by its number in decimal or a tag; "": the one that training goes on from.
    """

    def __init__(self, context: "Context", native: Any) -> None:
        self.context = context
        self._native = native
        self._made_from(context)

    @property
    def snapshots(self) -> list[Snapshot]:
        """The oldest first."""
        return [Snapshot(*one) for one in self._native.snapshots()]

    def find(self, name: str = "") -> Snapshot:
        """One of them."""
        return Snapshot(*self._native.find(name))

    def metadata(self, name: str, key: str) -> str:
        """What open_checkpoint(metadata=...) said; NotFound where there is no such key."""
        return self._native.metadata(name, key)

    def verify(self) -> int:
        """Decodes and compares everything; how many chunks there are. Corrupt where there are problems."""
        return self._native.verify()

    def diff(self, first: str, second: str) -> list[StreamDifference]:
        """How two snapshots differ; nothing is decoded."""
        words = ("same", "changed", "only_in_first", "only_in_second")
        return [StreamDifference(name, worker, words[difference], *rest)
                for name, worker, difference, *rest in self._native.diff(first, second)]

    def restore(self, model: "Model", name: str = "") -> int:
        """Puts the parameters and running statistics of a snapshot into the model that was trained; how many tensors."""
        model._unused("restore")
        return self._native.restore(name, model._native)

    def tag(self, name: str, tag: str) -> None:
        """A tag keeps a snapshot from being pruned. This and what follows need a writable store."""
        self._native.tag(name, tag)

    def untag(self, name: str, tag: str) -> None:
        """Takes a tag away."""
        self._native.untag(name, tag)

    def prune(self, keep: int) -> int:
        """Deletes all but the newest `keep`, those with a tag and the one that training goes on from; how many went."""
        return self._native.prune(keep)

    def branch(self, name: str) -> None:
        """A resume goes on from this snapshot; later ones stay."""
        self._native.branch(name)
