"""graft convert hf:ORG/NAME against a hub of this process: what is fetched, checked, taken up again, kept and refused."""

import hashlib
import http.server
import json
import os
import re
import threading
import urllib.parse

import cli

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "fedcba9876543210fedcba9876543210fedcba98"


class Hub(http.server.ThreadingHTTPServer):
    """Repositories by name: {file: bytes}. Tests set how it misbehaves."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.repositories, self.commit, self.large = {}, COMMIT, (".safetensors", ".gguf")
        self.asked, self.headers_seen = [], []
        self.listing = None  #: in place of the right one
        self.breaks_after = None  #: bytes after which the next transfer of a large file ends
        self.knows_ranges, self.damages, self.code, self.needs_token = True, False, None, False
        self.elsewhere = None  #: an address that large files are redirected to
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def list_of(self, name):
        siblings = []
        for path, data in self.repositories[name].items():
            entry = {"rfilename": path, "size": len(data), "blobId": hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()}
            if path.endswith(self.large):
                entry["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
            siblings.append(entry)
        return {"sha": self.commit, "siblings": siblings}


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, code, body, headers=(), shown=None):
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body if shown is None else body[:shown])
        if shown is not None:
            self.close_connection = True

    def do_GET(self):
        hub, path = self.server, self.path.split("?")[0]
        hub.asked.append(path)
        hub.headers_seen.append(self.headers.get("Authorization"))
        if hub.code:
            return self.send(hub.code, b"an error page")
        if hub.needs_token and self.headers.get("Authorization") != "Bearer secret":
            return self.send(401, b"who are you?")
        asked = re.fullmatch(r"/api/models/([\w.-]+/[\w.-]+)/revision/([\w.-]+)", path)
        if asked:
            if asked[1] not in hub.repositories or asked[2] not in ("main", "v1", hub.commit):
                return self.send(404, b"{}")
            return self.send(200, json.dumps(hub.listing or hub.list_of(asked[1])).encode())
        name, file = re.fullmatch(rf"/([\w.-]+/[\w.-]+)/resolve/{hub.commit}/(.*)", path).groups()
        data = hub.repositories[name][urllib.parse.unquote(file)]
        if file.endswith(hub.large):
            if hub.elsewhere:
                return self.send(302, b"", [("Location", hub.elsewhere + path)])
            if hub.damages:
                data = data[:-1] + bytes([data[-1] ^ 1])
        start = 0
        if hub.knows_ranges and "Range" in self.headers:
            start = int(re.fullmatch(r"bytes=(\d+)-", self.headers["Range"])[1])
        limit = None
        if file.endswith(hub.large) and hub.breaks_after is not None:
            limit, hub.breaks_after = hub.breaks_after, None
        headers = [("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")] if start else []
        self.send(206 if start else 200, data[start:], headers, limit)


class HubTest(cli.CliTest):
    def setUp(self):
        super().setUp()
        cli.shutil.copy(f"{cli.SEEDS}/gguf/llama", self.path("tiny.gguf"))
        self.graft("convert", "tiny.gguf", "-o", "tiny.graft")
        os.mkdir(self.path("tiny"))
        self.graft("export", "tiny.graft", "-o", "tiny/")
        self.files = {}
        for name in os.listdir(self.path("tiny")):
            with open(self.path("tiny/" + name), "rb") as file:
                self.files[name] = file.read()
        self.graft("convert", "tiny", "-o", "by_hand.graft")
        self.hub = Hub()
        self.addCleanup(self.hub.server_close)
        self.addCleanup(self.hub.shutdown)
        self.hub.repositories["org/tiny"] = self.files
        self.environment = {**os.environ, "HF_ENDPOINT": f"http://127.0.0.1:{self.hub.server_port}", "GRAFT_CACHE": self.path("cache"),
                            "HF_TOKEN": "", "HF_HOME": self.path("nowhere"), "no_proxy": "127.0.0.1"}
        done = self.run_graft("convert", "hf:org/none", "-o", "x.graft", env=self.environment)
        if "libcurl" in done.stderr:
            self.skipTest(done.stderr.strip())

    def convert(self, address="hf:org/tiny", output="out.graft", *flags, **more):
        done = self.run_graft("convert", address, "-o", output, *flags, env={**self.environment, **more})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def refuses(self, address="hf:org/tiny", says=(), **more):
        sentence = self.fails("convert", address, "-o", "refused.graft", env={**self.environment, **more}, says=says)
        self.assertFalse(os.path.exists(self.path("refused.graft")))
        return sentence

    def same_as_by_hand(self, output="out.graft"):
        with open(self.path(output), "rb") as got, open(self.path("by_hand.graft"), "rb") as wanted:
            self.assertEqual(got.read(), wanted.read())

    def kept(self, name="model.safetensors"):
        return self.path(f"cache/hub/org--tiny/{self.hub.commit}/tiny/{name}")

    def test_a_folder_is_fetched_once(self):
        self.files["README.md"] = b"# tiny"
        self.files["onnx/model.onnx"] = b"another form"
        self.files["training_args.bin"] = b"a pickle"
        done = self.convert()
        self.assertIn(f"Fetched {len(os.listdir(self.path('tiny')))} files", done.stderr)
        self.assertEqual(sorted(os.listdir(os.path.dirname(self.kept()))), sorted(os.listdir(self.path("tiny"))))
        self.same_as_by_hand()
        self.hub.asked.clear()
        done = self.convert(output="again.graft")
        self.assertIn("Found ", done.stderr)
        self.assertEqual(len(self.hub.asked), 1)  # whether main is still that commit
        self.same_as_by_hand("again.graft")
        # A commit never changes: nobody is asked.
        self.convert(f"hf:org/tiny@{COMMIT}", "third.graft")
        self.assertEqual(len(self.hub.asked), 1)
        self.same_as_by_hand("third.graft")

    def test_a_new_commit_is_fetched_and_the_old_one_stays(self):
        self.convert()
        self.hub.commit = OTHER
        self.assertIn(OTHER, self.convert(output="other.graft").stderr)
        self.assertIn(COMMIT, self.convert(f"hf:org/tiny@{COMMIT}", "old.graft").stderr)

    def test_one_file(self):
        with open(self.path("tiny.gguf"), "rb") as file:
            self.hub.repositories["org/quants"] = {"a b/tiny.gguf": file.read(), "other.gguf": b"not asked for"}
        self.convert("hf:org/quants@v1/a b/tiny.gguf")
        self.assertEqual([path for path in self.hub.asked if "/resolve/" in path], [f"/org/quants/resolve/{COMMIT}/a%20b/tiny.gguf"])
        with open(self.path("out.graft"), "rb") as got, open(self.path("tiny.graft"), "rb") as wanted:
            self.assertEqual(got.read(), wanted.read())
        self.refuses("hf:org/quants", ["hf:org/quants/a b/tiny.gguf", "hf:org/quants/other.gguf"])
        self.refuses("hf:org/quants/third.gguf", ['no file "third.gguf"'])

    def test_a_transfer_that_breaks_off_goes_on(self):
        for knows_ranges in (True, False):
            self.hub.knows_ranges, self.hub.breaks_after = knows_ranges, 1000
            output = f"{knows_ranges}.graft"
            self.convert(output=output)
            self.same_as_by_hand(output)
            cli.shutil.rmtree(self.path("cache"))

    def test_a_part_of_an_earlier_command_is_taken_up(self):
        self.convert()
        os.rename(self.kept(), self.kept("model.safetensors.part"))
        with open(self.kept("model.safetensors.part"), "r+b") as part:
            part.truncate(700)
        self.convert(output="again.graft")
        self.same_as_by_hand("again.graft")
        # One that is longer than the file, and one with other bytes.
        os.rename(self.kept(), self.kept("model.safetensors.part"))
        with open(self.kept("model.safetensors.part"), "ab") as part:
            part.write(b"too much")
        self.convert(output="longer.graft")
        self.same_as_by_hand("longer.graft")
        os.remove(self.kept())
        with open(self.kept("model.safetensors.part"), "wb") as part:
            part.write(b"x" * 500)
        self.refuses(says=["model.safetensors", "checksum", "removed"])
        self.assertFalse(os.path.exists(self.kept("model.safetensors.part")))
        self.convert(output="last.graft")
        self.same_as_by_hand("last.graft")

    def test_damage_is_found(self):
        self.hub.damages = True
        self.refuses(says=["checksum"])
        self.assertFalse(os.path.exists(self.kept()))
        listing = self.hub.list_of("org/tiny")
        for entry in listing["siblings"]:
            entry["size"] = min(entry["size"], 100)
        self.hub.damages, self.hub.listing = False, listing
        self.refuses(says=["sends more than the 100 bytes"])

    def test_without_a_network(self):
        self.convert()
        gone = {"HF_ENDPOINT": "http://127.0.0.1:1"}
        done = self.convert(output="offline.graft", **gone)
        self.assertIn("takes what was fetched earlier: commit " + COMMIT, done.stderr)
        self.same_as_by_hand("offline.graft")
        self.refuses("hf:org/other", ["into a folder", "config.json", "org/other/tree/main"], **gone)
        os.remove(self.kept())
        self.refuses(says=['"model.safetensors" is not in the cache'], **gone)

    def test_tokens(self):
        self.hub.needs_token = True
        self.refuses(says=["HF_TOKEN"])
        self.convert(HF_TOKEN="secret\n")
        self.same_as_by_hand()
        os.mkdir(self.path("home"))
        with open(self.path("home/token"), "w", encoding="ascii") as file:
            file.write("secret")
        cli.shutil.rmtree(self.path("cache"))
        self.convert(output="kept.graft", HF_HOME=self.path("home"))

    def test_a_token_goes_to_the_hub_alone(self):
        other = Hub()
        self.addCleanup(other.server_close)
        self.addCleanup(other.shutdown)
        other.repositories = self.hub.repositories
        self.hub.elsewhere = f"http://localhost:{other.server_port}"
        self.convert(HF_TOKEN="secret")
        self.same_as_by_hand()
        self.assertEqual((set(self.hub.headers_seen) - {None}, set(other.headers_seen)), ({"Bearer secret"}, {None}))

    def test_hostile_lists(self):
        right = self.hub.list_of("org/tiny")
        outside = dict(right["siblings"][0])
        for name in ("../evil.json", "/tmp/evil.json", "a/../../evil.json", "a\\b.json", "a\nb.json", ""):
            self.hub.listing = {**right, "siblings": [{**outside, "rfilename": name}]}
            self.refuses(says=["would not lie in the model's folder"])
        for listing in ([], {"sha": COMMIT}, {**right, "sha": "../.."}, {**right, "siblings": [{"rfilename": "config.json", "size": 3}]},
                        {**right, "siblings": ["config.json"]}):
            self.hub.listing = listing or [1]
            self.refuses(says=["hub"])
        self.hub.listing = {**right, "siblings": [{**one, "size": 10**15} if "lfs" in one else one for one in right["siblings"]]}
        self.refuses(says=["has room for", "GRAFT_CACHE"])

    def test_what_is_no_address(self):
        for address in ("hf:", "hf:tiny", "hf:org/", "hf:/tiny", "hf:org/ti ny", "hf:../tiny", "hf:org/tiny@", "hf:org/tiny/../x", "hf:org/tiny//x"):
            self.refuses(address, ["no address of the hub"])
        self.refuses("hf:org/none", ["gives no model org/none"])
        self.refuses(HF_ENDPOINT="http://example.org", says=["only https"])
        self.hub.code = 418
        self.refuses(says=["HTTP 418"])
        asked = len(self.hub.asked)
        self.fails("convert", "hf:org/tiny", "-o", "none/out.graft", env=self.environment, says=["none"])
        self.assertEqual(len(self.hub.asked), asked)  # refused before the network is asked


if __name__ == "__main__":
    cli.main()
