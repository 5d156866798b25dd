"""TFLite_Detection_PostProcess beside TensorFlow Lite itself: small files with both kinds of suppression, run by TensorFlow's own
interpreter (npm's @tensorflow/tfjs-tflite, in a Chromium without a window) and by graft.

Usage: detections.py GRAFT FOLDER     (FOLDER: where packages are kept, as published.py has it; by hand, for it asks npm's registry)
Exit status: 0 all agree, 1 some do not, 77 a package, node, chromium, flatc or numpy is not there.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

try:
    import numpy as np

    import published
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../schema/tflite.fbs")
TOLERANCE = 1e-5
BOXES = 60
# Suppression for each class, the background among the classes, classes, detections, of each class, overlap, score.
CASES = [(True, True, 4, 10, 5, 0.5, 0.3), (True, False, 6, 25, 3, 0.3, 0.5), (True, True, 1, 100, 100, 0.6, 0.0),
         (False, True, 4, 10, 100, 0.5, 0.3), (False, False, 5, 40, 100, 0.45, 0.6), (False, True, 3, 80, 100, 0.2, 0.1)]


def options(case, folder):
    by_class, _, classes, most, of_class, overlap, least = case
    with open(f"{folder}/o.json", "w", encoding="utf-8") as file:
        json.dump({"max_detections": most, "max_classes_per_detection": 1, "detections_per_class": of_class,
                   "use_regular_nms": by_class, "nms_score_threshold": least, "nms_iou_threshold": overlap, "num_classes": classes,
                   "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0}, file)
    subprocess.run(["flatc", "--flexbuffers", "--binary", "-o", folder, f"{folder}/o.json"], check=True, capture_output=True)
    with open(f"{folder}/o.bin", "rb") as file:
        return list(file.read())


def write(case, rng, folder):
    """One input [1, boxes, 4 + classes], which is cut in two."""
    classes = case[2] + case[1]
    anchors = np.concatenate((rng.uniform(0.1, 0.9, (BOXES, 2)), rng.uniform(0.2, 0.5, (BOXES, 2))), 1).astype(np.float32)
    data = [anchors, *[np.array(v, np.int32) for v in ([0, 0, 0], [1, BOXES, 4], [0, 0, 4], [1, BOXES, classes])]]
    tensors = [{"name": "x", "shape": [1, BOXES, 4 + classes], "type": "FLOAT32", "buffer": 0}]
    tensors += [{"name": f"constant{i}", "shape": list(a.shape), "type": "FLOAT32" if i == 0 else "INT32", "buffer": i + 1}
                for i, a in enumerate(data)]
    tensors += [{"name": "encoded", "shape": [1, BOXES, 4], "type": "FLOAT32", "buffer": 0},
                {"name": "rated", "shape": [1, BOXES, classes], "type": "FLOAT32", "buffer": 0}]
    tensors += [{"name": name, "shape": [], "type": "FLOAT32", "buffer": 0} for name in ("boxes", "classes", "scores", "count")]
    model = {"version": 3, "description": "detections",
             "operator_codes": [{"deprecated_builtin_code": 65, "builtin_code": "SLICE", "version": 1},
                                {"deprecated_builtin_code": 32, "builtin_code": "CUSTOM", "version": 1,
                                 "custom_code": "TFLite_Detection_PostProcess"}],
             "subgraphs": [{"tensors": tensors, "inputs": [0], "outputs": [8, 9, 10, 11],
                            "operators": [{"opcode_index": 0, "inputs": [0, 2, 3], "outputs": [6]},
                                          {"opcode_index": 0, "inputs": [0, 4, 5], "outputs": [7]},
                                          {"opcode_index": 1, "inputs": [6, 7, 1], "outputs": [8, 9, 10, 11],
                                           "custom_options": options(case, folder)}]}],
             "buffers": [{}, *[{"data": list(a.tobytes())} for a in data]]}
    with open(f"{folder}/m.json", "w", encoding="utf-8") as file:
        json.dump(model, file)
    subprocess.run(["flatc", "-b", "-o", folder, SCHEMA, f"{folder}/m.json"], check=True, capture_output=True)
    return f"{folder}/m.tflite", classes


def main():
    if not all(map(shutil.which, ("chromium", "flatc", "npm"))):
        print("skipped: chromium, flatc or npm is not installed")
        return 77
    try:
        judge = published.TensorFlowLite(os.path.abspath(sys.argv[2]))
    except OSError as missing:
        print(f"skipped: {missing} is not in npm's registry")
        return 77
    graft, bad = os.path.abspath(sys.argv[1]), 0
    for number, case in enumerate(CASES):
        rng = np.random.default_rng(number)
        with tempfile.TemporaryDirectory() as folder:
            path, classes = write(case, rng, folder)
            x = np.concatenate((rng.normal(size=(1, BOXES, 4)) * 2, rng.uniform(size=(1, BOXES, classes))), 2).astype(np.float32)
            expected = judge.run(path, x)
            published.call(graft, "convert", path, "-o", f"{folder}/m.graft")
            actual = published.outputs_of(graft, {"x": x}, folder)
        if expected is None:
            print(f"{case}: {judge.answer}")
            bad += 1
            continue
        count = int(expected["count"][0])
        # What stands behind the last detection is not said for the fast kind; graft has zeros.
        worst = max(float(np.abs(actual[name][:, :count] - expected[name][:, :count]).max(initial=0))
                    for name in ("boxes", "classes", "scores"))
        shapes = all(actual[name].shape == expected[name].shape for name in expected)
        right = shapes and actual["count"][0] == count and worst <= TOLERANCE and not actual["scores"][:, count:].any()
        bad += not right
        print(f"{case}: {count} detections, {'right' if right else 'WRONG'} {worst:.1e}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
