"""Compares random cases with a PostgreSQL 15: `python3 tests/recorder/fuzz.py [seed [cases]]`."""
import os
import random
import subprocess
import sys
import tempfile

from oracle import answers

FIELDS = (
    "HH HH12 HH24 MI SS MS US FF1 FF2 FF3 FF4 FF5 FF6 SSSS SSSSS AM A.M. am a.m. PM p.m. Y,YYY YYYY YYY YY Y IYYY IYY IY I "
    "BC B.C. ad a.d. MONTH Month month MON Mon mon MM DAY Day day DY Dy dy DDD IDDD DD D ID W WW IW CC J Q RM rm TZH TZM TZ OF FX"
).split()
NOT_OF_SPANS = set("BC B.C. ad a.d. MONTH Month month MON Mon mon DAY Day day DY Dy dy D ID TZH TZM TZ OF".split())
LITERALS = ["-", "/", " ", "  ", ":", ".", ",", '"x y"', "x", "é", "5", '"', "\\", '\\"', "\t", "th", "T", ""]
NUMBER_FIELDS = "9 9 9 9 0 0 . D , G PR S SG MI PL FM TH th L $ V EEEE RN rn B C SP 99 999".split()


def date_pattern(random, fields=FIELDS):
    parts = []
    for _ in range(random.randint(1, 7)):
        field = random.choice(fields)
        if random.random() < 0.2:
            field = random.choice(["FM", "TM", "fm"]) + field
        if random.random() < 0.2:
            field += random.choice(["TH", "th", "SP"])
        parts.append(field if random.random() < 0.8 else field.lower())
        if random.random() < 0.7:
            parts.append(random.choice(LITERALS))
    return "".join(parts)


def chaos(random):
    """Anything at all, mostly of letters that fields are made of."""
    alphabet = 'YMDHISTFXQWJOCRNPGLVEBAd9990.,-+:/ "\\\'\té€th'
    return "".join(random.choice(alphabet) for _ in range(random.randint(1, 30)))


def span(random):
    limits = random.choice([(30, 40, 10**11), (60000, 9000, 10**13), (2**31 - 1, 2**31 - 1, 2**63 - 1)])
    return " ".join(str(random.randint(-limit, limit)) for limit in limits)


def plain_pattern(random):
    """A pattern a person might write, for which many texts can be read."""
    dates = ["YYYY-MM-DD", "YYYYMMDD", "DD Mon YYYY", "YY/MM/DD", "IYYY-IW-ID", "YYYY DDD", "YYYY WW", "J", "Month DD, YYYY", "YYYY-MM-DD BC", "DDth MonthYYYY", "CC YY RM", "Y,YYY MM W", "FMMM/FMDD/YYYY", "IYYYIDDD", "FXYYYY MM DD"]
    times = ["HH24:MI:SS", "HH12:MI AM", "HH24MISS", "HH:MI:SS.MS p.m.", "SSSS", "HH24:MI:SS.US", "HH24:MI:SS.FF3", "HH24:MI TZH:TZM", "HH24 MI TZH", "SS.FF1", ""]
    return random.choice(dates) + random.choice([" ", "T", "", "  ", "-"]) + random.choice(times)


def moment(random):
    year, era = random.choice([(random.randint(1, 9999), ""), (random.randint(1900, 2100), ""), (random.randint(1, 4700), " BC"), (random.randint(10000, 290000), "")])
    day = random.randint(1, 28)
    time = f"{random.randint(0, 23):02}:{random.randint(0, 59):02}:{random.randint(0, 59):02}"
    fraction = random.choice(["", ".5", f".{random.randint(0, 999999):06}"])
    return f"{year:04}-{random.randint(1, 12):02}-{day:02} {time}{fraction}{era}"


def damage(text, random):
    for _ in range(random.choice([0, 0, 0, 1, 1, 2, 4])):
        at = random.randint(0, len(text))
        choice = random.random()
        if choice < 0.4:
            text = text[:at] + text[at + 1 :]
        elif choice < 0.8:
            text = text[:at] + random.choice(list("0123456789 -+:./,abTé") + ["  ", "Jan", "pm", "BC"]) + text[at:]
        else:
            text = text[:at] + random.choice("0123456789") + text[at + 1 :]
    return text


def number(random):
    digits = str(random.randint(0, 10 ** random.randint(0, 12)))
    decimals = random.choice(["", "", "." + "".join(random.choice("0123456789") for _ in range(random.randint(1, 6))), ".5", ".00"])
    return random.choice(["", "-"]) + digits + decimals


def number_pattern(random):
    parts = []
    for _ in range(random.randint(1, 9)):
        parts.append(random.choice(NUMBER_FIELDS) if random.random() < 0.45 else random.choice(["9", "99", "0", ".", "9", "FM", ","]))
        if random.random() < 0.08:
            parts.append(random.choice([" ", "-", "x", '"a b"', "é"]))
    pattern = "".join(parts)
    return pattern if random.random() < 0.9 else pattern.lower()


def times(random, count):
    fields = [field for field in FIELDS if field not in NOT_OF_SPANS]
    cases = [("ts", moment(random), date_pattern(random)) for _ in range(count)]
    cases += [("iv", span(random), date_pattern(random, fields)) for _ in range(count)]
    for _ in range(count // 2):
        pattern = chaos(random)
        cases += [("ts", moment(random), pattern), ("dec", number(random), pattern), ("flt", number(random), pattern)]
        cases += [("date", chaos(random), pattern), ("num", chaos(random), pattern), ("iv", span(random), pattern)]
    return cases


def texts(random, count):
    patterns = [date_pattern(random) if random.random() < 0.4 else plain_pattern(random) for _ in range(count)]
    # What PostgreSQL writes is the text to damage and to read again.
    written = answers([("ts", moment(random), pattern) for pattern in patterns]).splitlines()
    cases = []
    for pattern, line in zip(patterns, written):
        text = damage(line.split("\t")[3].removeprefix("=").replace("\\t", "\t").replace("\\\\", "\\"), random)
        cases += [("date", text, pattern), ("time", text, pattern)]
    return cases


def numbers(random, count):
    cases = []
    for _ in range(count):
        pattern, value = number_pattern(random), number(random)
        whole = value.split(".")[0]
        cases += [("dec", value, pattern), ("flt", value, pattern), ("real", value, pattern), ("big", whole, pattern)]
        if abs(int(whole)) < 2**31:
            cases.append(("int", whole, pattern))
        text = damage(random.choice([value, f"{float(value):,.2f}", f"<{value}>", f"{value}-", f"$ {value}"]), random)
        cases.append(("num", text, pattern))
    return cases


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else random.randrange(10**6)
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 3000
    source = random.Random(seed)
    cases = times(source, count) + texts(source, count) + numbers(source, count)
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", delete=False) as file:
        file.write(answers(cases))
    print(f"seed {seed}, {len(cases)} cases")
    environment = dict(os.environ, PATTERNS_CASES=file.name, RUST_BACKTRACE="0")
    arguments = ["cargo", "test", "-q", "--test", "cases", "--", "--ignored", "--nocapture", "cases_of_a_file"]
    status = subprocess.run(arguments, env=environment).returncode
    os.unlink(file.name)
    raise SystemExit(status)


main()
