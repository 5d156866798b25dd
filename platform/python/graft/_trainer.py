"""Training."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any, Iterable, Mapping, NamedTuple, Optional, Protocol, Sequence, Union

import numpy as np

from . import _c
from ._data import DataSet, Evaluation, Loader, Verdict, evaluation_options
from ._group import group_of
from ._library import Unraised, taken, text_of
from ._owned import Calls, Handle, Owned, copied
from ._tensors import InputFormat, Memory, TensorInfo, as_array, new_weights, tensor_of
from ._trainer_options import trainer_options

if TYPE_CHECKING:
    from ._model import Model

class Cipher(Protocol):
    """Authenticated encryption under a key that stays with the app, called on graft's own threads. seal() draws a new nonce in
    every call and gives overhead bytes more than it was given; open() raises what was not sealed under this key."""

    overhead: int  #: 1 to 64

    def seal(self, associated: bytes, plain: bytes) -> bytes: ...

    def open(self, associated: bytes, sealed: bytes) -> bytes: ...


def native_cipher(cipher: Optional[Cipher], calls: Calls) -> Optional[_c.Cipher]:
    """For C, as long as the context."""
    if cipher is None:
        return None

    def turned(method: Any) -> Any:
        def call(user: Any, associated: int, associated_bytes: int, data: int, size: int, out: int) -> int:
            try:
                made = method(ctypes.string_at(associated, associated_bytes), ctypes.string_at(data, size))
                if len(made) != size + (cipher.overhead if method == cipher.seal else -cipher.overhead):  # type: ignore[union-attr]
                    return 1
                ctypes.memmove(out, bytes(made), len(made))
                return 0
            except BaseException as raised:
                Unraised(raised)
                return 1

        return call

    made = _c.Cipher(overhead=cipher.overhead, seal=turned(cipher.seal), open=turned(cipher.open))
    calls.kept.append(made)
    return made


class Metrics(NamedTuple):
    """What a step, or an evaluation, found."""

    step: int  #: optimizer steps done
    loss: float  #: mean over the samples
    accuracy: float  #: 0 to 1; NaN where it has no meaning
    learning_rate: float
    loss_scale: float  #: of the next step; 1 where there is none
    skipped_steps: int  #: of the whole run: gradients overflowed, and nothing changed but the scale
    reward_margin: Optional[float] = None  #: of "dpo", "ipo", "orpo" and "kto"; None of other losses


def _metrics(found: _c.Metrics) -> Metrics:
    return taken(Metrics, found, reward_margin=None if np.isnan(found.reward_margin) else found.reward_margin)


class StepInfo(NamedTuple):
    """What the last step was, beside the means of its samples."""

    step: int  #: done with it
    epoch: int  #: from 0, of train_next()
    ends_epoch: bool  #: the next batch is of another epoch
    learning_rate: float  #: of parameters without a group
    gradient_norm: float  #: with clip_norm: before it clips; else NaN
    loss_scale: float  #: of the next step; NaN where there is none
    skipped: bool  #: it overflowed, and changed nothing but the scale
    skipped_steps: int
    submissions: int  #: to the device


class CheckpointInfo(NamedTuple):
    """Where a run is that was opened or resumed."""

    step: int  #: optimizer steps done: go on with the batch after these
    samples_done: int  #: of the step in progress
    journalled: int  #: steps that the journal has after these: give the same batches, and they are compared


class Forecast(NamedTuple):
    """What a trainer would take and do."""

    memory: Memory  #: what Trainer.memory() would say
    flops: int  #: of one micro-batch, forward and backward, those below included
    extra_flops: int  #: of results that are computed again to keep to the budget
    micro_batch: int  #: samples on the device at once
    recomputed: int  #: results that are computed again
    explanation: str  #: what was chosen to keep to the budget and why


def forecast_of(found: _c.Forecast) -> Forecast:
    return taken(Forecast, found, memory=taken(Memory, found))


class Trainer(Owned):
    """Trains a model; one call, one optimizer step. Made by Model.trainer(), whose options these are:

    trainer_options() lists them with their defaults. batch: samples of one optimizer step. micro_batch: samples on the
    device at once. groups: options of the parameters whose names match, as in
    [{"pattern": "head.*", "learning_rate_scale": 10, "weight_decay": 0}]; the first group that matches decides.
    group: one of several workers, an item of a ThreadGroup, or a Group of the app. Each worker has a trainer with the same
    options and its own context. join() begins.

    The model's own parameters change by store() only.
    """

    def __init__(self, model: "Model", **options: Any) -> None:
        self.model = model
        self._data = options.get("data")
        end = None if options.get("group") is None else group_of(options["group"])
        self._made_from(model, model._make(_c.graft_trainer_create, trainer_options(**{**options, "group": end}),
                                           destroy=_c.graft_trainer_destroy, uses=end))
        self._sample = self._each(_c.TensorInfo, _c.graft_trainer_sample, take=tensor_of)

    @property
    def sample(self) -> list[TensorInfo]:
        """What one sample consists of, without the batch: the model's inputs in order; last the target, if there is one."""
        return list(self._sample)

    def step(self, x: Any, y: Any = None) -> Metrics:
        """One optimizer step on at most `batch` samples; fewer are weighted correctly.

        x: the input as [samples, ...], or several in order, or by name. y: as [samples, ...]; integers for cross entropy,
        else float32; None where the loss has no target. After an error, ask again with the same samples: the step goes
        on where it stopped.
        """
        return self._ask(_c.Metrics, _c.graft_train_step, *self._samples(x, y), take=_metrics)

    def micro_step(self, x: Any, y: Any = None) -> Optional[Metrics]:
        """One micro-batch of the same step, and with the last one the update; None until then. Give the same samples."""
        done = ctypes.c_int()
        metrics = self._ask(_c.Metrics, _c.graft_train_micro_step, *self._samples(x, y), ctypes.byref(done), take=_metrics)
        return metrics if done else None

    def train_next(self, loader: Loader) -> Optional[Metrics]:
        """One step on the loader's next batch, by a trainer that was made for its set (the option data); None: the epochs are
        over. After an error, ask again."""
        more = ctypes.c_int()
        metrics = self._ask(_c.Metrics, _c.graft_train_next, loader._native, ctypes.byref(more), take=_metrics)
        return metrics if more else None

    def restart(self, model: Optional["Model"] = None) -> None:
        """Begins the run anew with the weights of `model`, of the same graph, or of the trainer's own: the optimizer knows
        nothing, no step is done. The plan and what is compiled stay: for rounds of federated training. Not within a step,
        nor with a checkpoint open."""
        self._call(_c.graft_trainer_restart, model and model._native)

    def evaluation(self, data: DataSet, *, metrics: Sequence[str] = (), confusion: bool = False,
                   outcomes: bool = False) -> Evaluation:
        """What the weights as they are now, or their running means, give on all samples of a set that has no loader.

        metrics: beside the loss; metric_names() has them. More than the loss and the accuracy needs the option predictions.
        """
        return Evaluation(self.model.context, self._make(_c.graft_evaluate_trainer, data._native, evaluation_options(
            metrics, confusion, outcomes), destroy=_c.graft_evaluation_destroy))

    def observe(self, evaluation: Evaluation, *, plateau: str = "", patience: int = 10, factor: float = 0.1,
                early_stop: str = "", stop_patience: int = 1, min_delta: float = 0, best: str = "") -> Verdict:
        """Notes an evaluation of the weights as they are now; each metric is "loss", "accuracy" or one of the evaluation's.

        plateau: with the schedule "plateau", the rate falls by `factor` where this gets no better for `patience` evaluations.
        early_stop: the verdict is to stop where this gets no better for stop_patience of them. min_delta: by how much better
        counts. best: the verdict says whether this is the best so far.
        """
        options = _c.WatchOptions(plateau=plateau, patience=patience, factor=factor, early_stop=early_stop,
                                  stop_patience=stop_patience, min_delta=min_delta, best=best)
        return self._ask(_c.Verdict, _c.graft_trainer_observe, evaluation._native, options, take=lambda found: taken(Verdict, found))

    def evaluate(self, x: Any, y: Any = None) -> Metrics:
        """Loss and accuracy of any number of samples, or of a DataSet without a loader, without training: dropout off,
        running statistics used."""
        if isinstance(x, DataSet):
            return self._ask(_c.Metrics, _c.graft_evaluate_data, x._native, take=_metrics)
        return self._ask(_c.Metrics, _c.graft_evaluate, *self._samples(x, y), take=_metrics)

    def fit(self, batches: Iterable[tuple[Any, Any]], *, progress: bool = True) -> list[Metrics]:
        """A step for each (x, y) of `batches`, such as a DataLoader of PyTorch; the metrics of each.

        progress: a bar with the loss, where tqdm is installed.
        """
        bar = _progress_bar(batches) if progress else None
        found = []
        for x, y in batches if bar is None else bar:
            found.append(self.step(x, y))
            if bar is not None:
                bar.set_postfix(loss=f"{found[-1].loss:.4f}")
        return found

    def last_step(self) -> StepInfo:
        """Of the step that was done last; NotFound before the first."""
        found = _c.StepInfo()
        self._call(_c.graft_trainer_last_step, found, None)
        return taken(StepInfo, found)

    def copy(self, ema: bool = False) -> "Model":
        """A model with the weights as they are now (ema: with their running means) and the trainer's adapters: to generate
        with, to evaluate, to save, while the run goes on and its own model stays as it was."""
        return type(self.model)(self.model.context, self._make(_c.graft_trainer_copy, ema, destroy=_c.graft_model_destroy))

    def fetch(self, name: str) -> np.ndarray:
        """A value of the option `fetch` as the last step computed it, for all its samples."""
        native = self._native
        with native.calls as calls:
            return copied(calls, _c.graft_trainer_fetch, native, name)

    def state_dict(self) -> dict[str, np.ndarray]:
        """Parameters and running statistics by name, as training has made them so far."""
        return {info.name: self._read(_c.graft_trainer_read, info.name) for info in self.model._weights(False)}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> None:
        """New contents between two steps, as Model.load_state_dict; optimizer state stays.

        A run that is kept in a folder gets a snapshot for each weight, from which a resume goes on.
        """
        weights = self.model._weights(False)
        for name, array in new_weights(weights, weights, state_dict, strict).items():
            self._write(_c.graft_trainer_write, name, array)

    @property
    def learning_rate(self) -> float:
        """Before schedule and groups, which multiply it. May be set between two steps, and is resumed."""
        return self._ask(ctypes.c_double, _c.graft_trainer_learning_rate)

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        self._call(_c.graft_trainer_set_learning_rate, rate)

    def store(self) -> None:
        """Copies the trained parameters into the model, for Model.save() and new sessions."""
        self._call(_c.graft_trainer_store)

    def store_ema(self) -> None:
        """The same with the running means of the parameters (the option ema), which evaluations are of."""
        self._call(_c.graft_trainer_store_ema)

    def memory(self) -> Memory:
        """Bytes by class of memory: what is planned is what is allocated."""
        return self._ask(_c.Memory, _c.graft_trainer_memory, take=lambda memory: taken(Memory, memory))

    def set_budget(self, budget: int) -> None:
        """Between two steps: plans anew for another budget in bytes (0: none), and the run goes on where it is."""
        self._call(_c.graft_trainer_set_budget, budget)

    def trim(self, bytes: int) -> None:
        """The same for a budget that gives at least so many bytes of device memory back."""
        self._call(_c.graft_trainer_trim, bytes)

    def pause(self) -> None:
        """Gives all device memory back, in the middle of a step too; the next call that needs it builds everything again,
        and the run goes on to the same bits."""
        self._call(_c.graft_trainer_pause)

    def resume(self) -> None:
        """Builds everything again after pause(); OutOfMemory where the device has not the memory now: ask again."""
        self._call(_c.graft_trainer_resume)

    def shortages(self) -> int:
        """How often the device was short of memory, and training went on by itself."""
        return self._ask(ctypes.c_uint64, _c.graft_trainer_shortages)

    # ---- Several workers ----------------------------------------------------------------------------------------

    def join(self, loader: Optional[Loader] = None) -> int:
        """By all workers before the first step (option group), and again after a failure with `trouble`: sees that all were
        made alike, and gives worker 0's state to all. loader: train_next()'s, which then reads this worker's samples
        alone. The steps that are done."""
        return self._ask(ctypes.c_uint64, _c.graft_trainer_join, loader and loader._native)

    def meet(self, loader: Optional[Loader] = None) -> None:
        """Before join(), where a worker is lost or waits: those that are left meet, by the group's reform()."""
        self._call(_c.graft_trainer_meet, loader and loader._native)

    @property
    def trouble(self) -> str:
        """What ended the group's last step: "" for nothing; "lost", a worker is gone; "newcomer", one waits; "differs", some
        workers' parameters are others."""
        trainer = self._native
        with trainer.calls:
            trouble = _c.GroupTrouble(_c.graft_trainer_trouble(trainer))
        return trouble.name if trouble else ""

    @property
    def rank(self) -> tuple[int, int]:
        """Which of how many workers this one is."""
        rank = ctypes.c_uint32()
        return self._ask(ctypes.c_uint32, _c.graft_trainer_rank, ctypes.byref(rank), take=lambda size: (rank.value, size.value))

    def share(self, samples: int) -> range:
        """Which samples of a step's batch this worker computes: step() takes all, and does not look at the others."""
        first = ctypes.c_uint32()
        count = self._ask(ctypes.c_uint32, _c.graft_trainer_share, samples, ctypes.byref(first))
        return range(first.value, first.value + count)

    def gather(self) -> None:
        """By all workers between the same steps: worker 0 has the optimizer's state of all, for save_checkpoint()."""
        self._call(_c.graft_trainer_gather)

    def request_whole(self) -> bool:
        """Asks worker 0's next step to bring what gather() does; whether it is there now."""
        return bool(self._ask(ctypes.c_int, _c.graft_trainer_request_whole))

    def conclude(self, finished: bool = True) -> bool:
        """After the last step, by all workers, again until it is True: worker 0 has `finished` (of the others: any)."""
        return bool(self._ask(ctypes.c_int, _c.graft_trainer_conclude, finished))

    # ---- Checkpoints --------------------------------------------------------------------------------------------

    def open_checkpoint(self, folder: Union[str, "os.PathLike[str]"], *, every: int = 0, resume: bool = False,
                        from_snapshot: str = "", keep: int = 4, journal_every: int = 1, journal_ms: int = 0,
                        with_changes: bool = False, continue_on_mismatch: bool = False, data: str = "",
                        metadata: Optional[Mapping[str, str]] = None, allow_non_finite: bool = False,
                        loader: Optional[Loader] = None, cipher: Optional[Cipher] = None, forget: bool = False) -> CheckpointInfo:
        """Keeps the run in a folder from now on; needs the option checkpoints=True.

        every: steps between snapshots, 0: save_checkpoint() only. Each step is journalled: durable at each
        `journal_every`-th, or `journal_ms` milliseconds later at most where that is not 0.
        resume: the trainer is brought to where the folder's run was, exactly; without it the folder must hold no
        snapshot. from_snapshot: by number or tag; "": the newest. with_changes: although options differ.
        data: whatever tells the data apart: a resume with another is refused. keep: newest snapshots to keep.
        allow_non_finite: parameters may be NaN or infinite. loader: of train_next(): its place is kept, and a resume goes on
        there. cipher: of everything in the folder. forget: with resume and a keyed loader, whose data lack records that no step
        before the snapshot has used (MemoryFile.first_use): later ones are erased, and the run becomes one that never had them.
        """
        options = _c.CheckpointOptions(
            folder=folder, every=every, resume=resume, keep=keep, journal_every=journal_every, journal_ms=journal_ms,
            with_changes=with_changes, continue_on_mismatch=continue_on_mismatch, data=data, metadata=metadata,
            allow_non_finite=allow_non_finite, loader=loader, forget=forget, cipher=native_cipher(cipher, self._native.calls), **{"from": from_snapshot})
        self._loader = loader
        return self._ask(_c.CheckpointInfo, _c.graft_checkpoint_open, options, take=lambda info: taken(CheckpointInfo, info))

    def save_checkpoint(self, tag: str = "") -> None:
        """A snapshot of now: on storage when it returns. Tagged ones always stay."""
        self._call(_c.graft_checkpoint_save, text_of(tag) or None)

    def close_checkpoint(self) -> None:
        """Waits until all is on storage and closes the folder. Takes no snapshot."""
        self._call(_c.graft_checkpoint_close)

    def close(self) -> None:
        """As close_checkpoint(), where a folder is open; then frees what the trainer owns. A second call does nothing."""
        try:
            if not self.closed:
                self.close_checkpoint()
        finally:
            super().close()

    def set_checkpoint_data(self, data: bytes, worker: int = 0) -> None:
        """Bytes of the caller's own in each further snapshot, such as its place in the data."""
        self._call(_c.graft_checkpoint_set_data, worker, data, len(data))

    def checkpoint_data(self, worker: int = 0) -> bytes:
        """What was set, or saved with the snapshot that was resumed; NotFound where nothing was."""
        data = ctypes.c_void_p()
        return self._ask(ctypes.c_size_t, _c.graft_checkpoint_data, worker, ctypes.byref(data),
                         take=lambda size: ctypes.string_at(data, size.value))

    def warm_start(self, folder: Union[str, "os.PathLike[str]"], snapshot: str = "", *,
                   cipher: Optional[Cipher] = None) -> None:
        """A new run from the parameters and running statistics of a snapshot (number or tag; "": the newest)."""
        self._call(_c.graft_warm_start, text_of(folder), text_of(snapshot) or None, native_cipher(cipher, self._native.calls))

    def _samples(self, x: Any, y: Any) -> tuple[Any, int, Optional[int], int]:
        """As C takes them: the inputs' pointers and their number, the target's, how many samples. All shapes are checked here."""
        inputs = self._sample if y is None else self._sample[:-1]
        arrays = [as_array(value, info.dtype, f"The input {info.name!r}")
                  for value, info in zip(_in_order(inputs, x), inputs)]
        target = None if y is None else as_array(y, self._sample[-1].dtype, "The target")
        last = arrays[-1] if target is None else target
        samples = last.shape[0] if last.ndim else 0
        for array, info in zip([*arrays] if target is None else [*arrays, target], self._sample):
            if array.shape != (samples, *info.shape):
                what = "target" if array is target else f"input {info.name!r}"
                raise ValueError(f"The {what} of {samples} samples is {[samples, *info.shape]}, and the array is "
                                 f"{list(array.shape)}.")
        pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
        pointers._arrays = arrays, target  # stay as long
        return pointers, len(arrays), None if target is None else target.ctypes.data, samples


def _in_order(inputs: list[TensorInfo], x: Any) -> list[Any]:
    names = [info.name for info in inputs]
    if isinstance(x, Mapping):
        if set(x) != set(names):
            raise ValueError(f"The inputs are {', '.join(names)}, and {', '.join(map(str, x)) or 'none'} were given.")
        return [x[name] for name in names]
    if isinstance(x, (list, tuple)) and len(names) != 1:
        if len(x) != len(names):
            raise ValueError(f"The inputs are {', '.join(names)}, and {len(x)} were given.")
        return list(x)
    if isinstance(x, (list, tuple)) and len(x) == 1 and hasattr(x[0], "__array__"):
        return [x[0]]
    if len(names) != 1:
        raise ValueError(f"The inputs are {', '.join(names)}, and one was given.")
    return [x]


def _progress_bar(batches: Iterable[Any]) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(batches, unit="step")
