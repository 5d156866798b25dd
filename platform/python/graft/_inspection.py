"""What is known of models, plans, devices and kept runs."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

from . import _c
from ._errors import error_of
from ._library import taken, text_of
from ._owned import Owned, each
from ._trainer import Forecast, forecast_of

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


def plan_of(model: "Model", options: _c.PlanOptions) -> Plan:
    made = model._make(_c.graft_plan_create, options, destroy=_c.graft_plan_destroy)
    forecast, points, count = _c.Forecast(), ctypes.POINTER(_c.PlanPoint)(), ctypes.c_size_t()
    with made.calls as calls:
        calls.check(_c.graft_plan_forecast(made, forecast))
        nodes = each(calls, _c.PlanNode, _c.graft_plan_node_at, made, take=lambda node: taken(PlanNode, node))
        values = each(calls, _c.PlanValue, _c.graft_plan_value_at, made, take=lambda value: taken(PlanValue, value))
        if options.curve:
            calls.check(_c.graft_plan_curve(made, ctypes.byref(points), ctypes.byref(count)))
        return Plan(forecast_of(forecast), nodes, values, [taken(PlanPoint, points[i]) for i in range(count.value)])


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
    found = ctypes.c_void_p()
    status = _c.graft_devices_find(_c.ContextOptions(vulkan_library=vulkan_library, log_level="error"), ctypes.byref(found))
    try:
        if status:
            raise error_of(status, _c.graft_devices_message(found).decode() if found else "Out of memory.")
        return [_device(found, index) for index in range(_c.graft_devices_count(found))]
    finally:
        _c.graft_devices_destroy(found)


def _device(found: Any, index: int) -> Device:
    info = _c.DeviceInfo()
    _c.graft_devices_info(found, index, info)
    facts = each(None, _c.DeviceFact, _c.graft_devices_fact, found, index, take=lambda fact: fact)
    return taken(Device, info, api_version=tuple(info.api_version),
                 features={fact.name.decode(): bool(fact.values[0]) for fact in facts if fact.is_feature and not fact.text},
                 limits={fact.name.decode(): fact.values[:fact.value_count] for fact in facts if not fact.is_feature and not fact.text},
                 matrices=[fact.text.decode() for fact in facts if fact.text],
                 quirks=each(None, _c.DeviceQuirk, _c.graft_devices_quirk, found, index, take=lambda quirk: taken(Quirk, quirk)))


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


def _snapshot(found: _c.Snapshot) -> Snapshot:
    return taken(Snapshot, found, tags=found.get("tags").splitlines())


def _named(snapshot: str) -> Optional[bytes]:
    return text_of(snapshot) or None


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
        self._made_from(context, native)

    @property
    def snapshots(self) -> list[Snapshot]:
        """The oldest first."""
        return self._each(_c.Snapshot, _c.graft_store_snapshot, take=_snapshot)

    def find(self, name: str = "") -> Snapshot:
        """One of them."""
        return self._ask(_c.Snapshot, _c.graft_store_find, _named(name), take=_snapshot)

    def metadata(self, name: str, key: str) -> str:
        """What open_checkpoint(metadata=...) said; NotFound where there is no such key."""
        return self._ask(ctypes.c_char_p, _c.graft_store_metadata, _named(name), text_of(key))

    def hash(self, name: str = "") -> str:
        """Of a snapshot's parameters, running statistics and optimizer state: the same for the same bits."""
        return self._ask(ctypes.c_char_p, _c.graft_store_hash, _named(name))

    def verify(self) -> int:
        """Decodes and compares everything; how many chunks there are. Corrupt where there are problems."""
        chunks = ctypes.c_uint64()
        self._call(_c.graft_store_verify, ctypes.byref(chunks), None)
        return chunks.value

    def diff(self, first: str, second: str) -> list[StreamDifference]:
        """How two snapshots differ; nothing is decoded."""
        return self._list(_c.StreamDifference, _c.graft_store_diff, _named(first), _named(second),
                          take=lambda one: taken(StreamDifference, one))

    def restore(self, model: "Model", name: str = "") -> int:
        """Puts the parameters and running statistics of a snapshot into the model that was trained; how many tensors."""
        model._unused("restore")
        return self._ask(ctypes.c_size_t, _c.graft_store_restore, _named(name), model._native)

    def tag(self, name: str, tag: str) -> None:
        """A tag keeps a snapshot from being pruned. This and what follows need a writable store."""
        self._call(_c.graft_store_tag, _named(name), text_of(tag))

    def untag(self, name: str, tag: str) -> None:
        """Takes a tag away."""
        self._call(_c.graft_store_untag, _named(name), text_of(tag))

    def prune(self, keep: int) -> int:
        """Deletes all but the newest `keep`, those with a tag and the one that training goes on from; how many went."""
        removed = ctypes.c_size_t()
        self._call(_c.graft_store_prune, keep, ctypes.byref(removed), None)
        return removed.value

    def branch(self, name: str) -> None:
        """A resume goes on from this snapshot; later ones stay."""
        self._call(_c.graft_store_branch, _named(name))
