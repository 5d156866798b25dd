"""The tables of Unicode beside Python's unicodedata, over all code points that both have.

Usage: unicode_parity.py UNICODE_POINTS
"""
import subprocess
import sys
import unicodedata

CATEGORIES = ("Cn Cc Cf Co Cs Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp").split()
CHANGED = {0x1171E: "Mc"}  # categories that a later version changed
OLD = unicodedata.ucd_3_2_0  # those of characters after Unicode 11 have no normal forms here, as in the library


def main():
    lines = subprocess.run([sys.argv[1]], capture_output=True, text=True, check=True).stdout.splitlines()
    compared, wrong = 0, []
    for line in lines:
        point, category, lower, *forms = line.split(" ")
        c, text = int(point, 16), chr(int(point, 16))
        known = unicodedata.category(text)
        if known == "Cn":
            continue
        compared += 1
        if CATEGORIES[int(category)] not in (known, CHANGED.get(c)):
            wrong.append(f"U+{point}: {CATEGORIES[int(category)]}, not {known}")
        expected = text.lower() if len(text.lower()) == 1 else text
        if int(lower, 16) != ord(expected):
            wrong.append(f"U+{point}: lower case {lower}, not {ord(expected):x}")
        for form, given in zip(("NFD", "NFC", "NFKD", "NFKC"), forms):
            if bytes.fromhex(given).decode() not in (unicodedata.normalize(form, text), text if OLD.category(text) == "Cn" else None):
                wrong.append(f"U+{point}: {form} {given}")
    print("\n".join(wrong[:40]))
    print(f"{len(lines)} code points, {compared} compared with Unicode {unicodedata.unidata_version}, {len(wrong)} differ")
    return 1 if wrong else 0


sys.exit(main())
