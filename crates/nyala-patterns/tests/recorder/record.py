"""Records `tests/cases.tsv` from a PostgreSQL 15: `python3 tests/recorder/record.py`."""
import pathlib

from oracle import answers

MOMENTS = [
    "2024-02-29 13:05:09.123456", "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "0044-03-15 12:00:00 BC",
    "0001-12-31 11:59:59 BC", "1900-03-01 00:30:00", "2000-12-31 12:34:56.000789", "12345-06-07 08:09:10",
]
WRITTEN = [
    "HH HH12 HH24 MI SS MS US", "FF1 FF2 FF3 FF4 FF5 FF6", "SSSS SSSSS", "AM A.M. am a.m. PM P.M. pm p.m.",
    "Y,YYY YYYY YYY YY Y", "IYYY IYY IY I", "BC B.C. bc b.c. AD A.D. ad a.d.",
    "MONTH|Month|month|MON|Mon|mon|MM", "DAY|Day|day|DY|Dy|dy|DDD|IDDD|DD|D|ID", "W WW IW CC J Q", "RM|rm",
    "FMHH24:FMMI:FMSS FMMM/FMDD/FMY,YYY FMYYYY FMYY FMDDD FMWW FMIW FMCC FMMS FMFF3",
    "HH24TH MIth SSTH DDth Dth DDDTH YYYYth Y,YYYth YYth CCth WWth Qth Jth IDth SSSSth MSth",
    "TMMonth|TMDAY|TMMon|FMMonth|FMDay|FMRM|FMrm", "TZ tz TZH TZM OF FMOF",
]
EDGES = [
    "2004-12-31", "2005-01-01", "2005-01-02", "2005-01-03", "2008-12-28", "2008-12-29", "2009-12-31", "2010-01-03",
    "2010-01-04", "2015-12-31", "2016-01-03", "2020-12-31", "2021-01-03", "2024-12-30", "2026-12-31", "0001-01-01",
    "0001-01-07", "9999-12-31", "0004-02-29", "0005-02-28 BC", "4714-11-24 BC", "2000-02-29", "1900-02-28",
]
LITERALS = [
    "", '""', '"Year "YYYY', '\\"YYYY\\"', '"a\\"b"', '"a\\\\b"', "\\YYYY", '"no end YYYY', "xzXZ %&*", "Ünïcödé YYYY é",
    "FM", "FMx", "FMFMMM", "FMTMMonth", "TMTMMonth", "HH24MISSMS", "YYYYMMDDHH24MISSUS", "DDSP DDTHSP", "MMTHth",
    "YYYY-MM-DD\"T\"HH24:MI:SS.US", "FXYYYY", "FF7 FF", "Am aM Pm", "yYyY", "dddd ddddd", "DDDD", "IDDDD", "SSSSSS",
    "monthMONTHMonth", "hh24:mi:ss", "\tYYYY\n", "day,dd mon yyyy bc", "YYYY\\", "\\\\YYYY", '"\\', "W.w Q.q", "TH th",
    "RMTH", "MonthTH", "Y,YY", "A.M A.D", "HH24:MI:SS\\TZ", "of tzh tzm tz",
]
ZONES = [
    ("2024-07-01 12:00:00", "Europe/Berlin"), ("2024-01-01 12:00:00", "America/St_Johns"),
    ("2024-01-01 12:00:00", "Asia/Kolkata"), ("1890-01-01 00:00:00", "Europe/Amsterdam"),
    ("2024-01-01 00:00:00", "UTC"), ("2024-01-01 23:59:59.5", "Pacific/Marquesas"), ("0044-03-15 00:00:00 BC", "UTC"),
    ("2024-01-01 00:00:00", "<+1130>-11:30"),
]
SPANS = [
    "0 0 0", "14 3 3723123456", "-14 -3 -3723123456", "12 0 0", "-12 0 0", "11 0 0", "-1 0 0", "-11 5 1", "1200 0 0",
    "-1200 0 0", "12345 400 360000000000", "0 0 -43200000000", "0 0 43200000000", "2147483647 2147483647 0",
    "-2147483648 -2147483648 0", "0 0 9223372036854775807", "0 0 -9223372036854775807", "5 -7 86399999999",
]
SPAN_PATTERNS = [
    "HH24:MI:SS", "HH HH12 AM p.m. FMHH24", "YYYY-MM-DD", "Y,YYY YYY YY Y CC", "IYYY IYY IY I IW IDDD", "DDD WW W Q J",
    "MS US FF1 FF5 SSSS", "RM|rm|FMRM", "HH24th MITH SSth DDth", "FMYYYY FMMM FMDD FMMI FMSS FMDDD", '"text" x',
]
NOT_OF_SPANS = ["TZ", "tzh", "OF", "AD", "b.c.", "Month", "MON", "Day", "dy", "D", "ID", "HH24 Mon", ""]

READ = [
    # Separators and spaces.
    ("2024-02-29", "YYYY-MM-DD"), ("2024/02/29", "YYYY-MM-DD"), ("20240229", "YYYYMMDD"), ("20240229", "YYYY-MM-DD"),
    ("2024 2 29", "YYYY-MM-DD"), ("  2024-02-29", "YYYY-MM-DD"), ("2024 -  02 - 29", "YYYY-MM-DD"),
    ("2024--02", "YYYY-MM"), ("2024-02", "YYYY--MM"), ("2024   02", "YYYY MM"), ("2024 02", "YYYY   MM"),
    ("2000 JUN", "YYYY  MON"), ("2000-JUN", "YYYY MON"), ("2000+   JUN", "YYYY/MON"), ("2000 +JUN", "YYYY//MON"),
    ("2000 + JUN", "YYYY//MON"), ("2000/JUN", "YYYY MON"), ("a2000", "YYYY"), ("x2000", "xYYYY"), (" x2000", "xYYYY"),
    ("2000y6m1d", "yyyy\"y\"mm\"m\"dd\"d\""), ("2000 y 6", "YYYY\"y\"MM"), ("2000x06", "YYYYMM"), ("97/Feb/16", "YY/Mon/DD"),
    ("97/Feb/16", "YYMonDD"), ("97/Feb/16", "FXYY/Mon/DD"), ("97/Feb/16", "FXYY:Mon:DD"), ("97Feb16", "FXYY/Mon/DD"),
    ("1997 AD", "YYYY BC"), ("1997 A.D.", "YYYY B.C."), ("0044 bc", "YYYY AD"), ("44 B.C.", "YYYY B.C."),
    ("-44", "YYYY"), ("-44 BC", "YYYY BC"), ("+2000", "YYYY"), ("0", "YYYY"), ("0000-01-01", "YYYY-MM-DD"),
    ("2011 12  18", "YYYY MM  DD"), ("2011  12  18", "YYYY MM DD"), ("2011   12 18", "YYYY  MM DD"),
    ("2011-12-18 extra", "YYYY-MM-DD"), ("2011", "YYYY-MM-DD"), ("2011-", "YYYY-MM-DD"), ("2011- ", "YYYY-MM-DD"),
    ("", "YYYY"), (" ", "YYYY"), ("2000", ""), ("", ""), ("\t2000\n06", "YYYYMM"), ("é2000", "éYYYY"), ("2000é06", "YYYYéMM"),
    ("15 \"text between quote marks\" 98 54 45", "HH24 \"\\\"text between quote marks\\\"\" YY MI SS"),
    ("2000 06", "FXYYYY MM"), ("2000  06", "FXYYYY MM"), ("2000-06", "FXYYYYxMM"), ("20006", "FXYYYYMM"), ("2000 6", "FXYYYYFMMM"),
    (" 2000", "FXYYYY"), ("2000 12", "YYYYFXMM"), ("20 00", "FXYYYY"), ("   x", "FXYYYYMM"),
    # Short years, centuries.
    ("0", "Y"), ("5", "Y"), ("05", "YY"), ("69", "YY"), ("70", "YY"), ("99", "YY"), ("100", "YY"), ("1999", "YY"), ("519", "YYY"),
    ("520", "YYY"), ("999", "YYY"), ("005", "YYY"), ("123", "Y"), ("95-12", "YY-MM"), ("951207", "YYMMDD"), ("9957", "YYYYMM"),
    ("20 24", "CC YY"), ("21 24", "CC YY"), ("20 00", "CC YY"), ("19 1999", "CC YYYY"), ("21", "CC"), ("6 BC", "CC BC"), ("6 24 BC", "CC YY BC"),
    ("-6", "CC"), ("21 5", "CC Y"), ("20 123", "CC YYY"), ("6 00 BC", "CC YY BC"), ("1,999", "Y,YYY"), ("2,024-05", "Y,YYY-MM"),
    ("12,345", "Y,YYY"), ("2024", "Y,YYY"), ("1,", "Y,YYY"), ("1, 99", "Y,YYY"), ("1,9999", "Y,YYY"), ("1,999th-05", "Y,YYYth-MM"), ("-1,005", "Y,YYY"),
    # Names.
    ("2000 january 5", "YYYY Month DD"), ("2000 JANUARY 5", "YYYY month DD"), ("2000 jAn 5", "YYYY MON DD"), ("2000 Jan", "YYYY Month"),
    ("2000 Maybe", "YYYY MON"), ("2000 Foo", "YYYY Mon"), ("Wednesday 5 June 2024", "Day DD Month YYYY"), ("wed 5 jun 2024", "Dy DD Mon YYYY"),
    ("Xyz 2000", "DAY YYYY"), ("2000 XII", "YYYY RM"), ("2000 viii 3", "YYYY RM DD"), ("2000 iv", "YYYY rm"), ("2000 A", "YYYY RM"),
    ("May2000", "MonthYYYY"), ("MarcH 2000", "TMMonth YYYY"), ("Sept 2000", "Mon YYYY"), ("Mon Tue", "Dy Dy"), ("Sun Tue", "Dy Dy"),
    # Days.
    ("2024 366", "YYYY DDD"), ("2023 366", "YYYY DDD"), ("2024 060", "YYYY DDD"), ("2023-60", "YYYY-DDD"), ("2024 0", "YYYY DDD"), ("60", "DDD"),
    ("2024 -5", "YYYY DDD"), ("2024 -5", "YYYY  DDD"), ("2024 100 02", "YYYY DDD MM"), ("2024 100 15", "YYYY DDD DD"), ("366 1 BC", "DDD YYYY BC"), ("366 BC", "DDD BC"),
    ("2024 10", "YYYY WW"), ("2024 53", "YYYY WW"), ("2024 54", "YYYY WW"), ("2024 02 3", "YYYY MM W"), ("2024 02 5", "YYYY MM W"), ("2024 02 6", "YYYY MM W"),
    ("2005-52-6", "IYYY-IW-ID"), ("2005-53-6", "IYYY-IW-ID"), ("2009-53-7", "IYYY-IW-ID"), ("2024-01", "IYYY-IW"), ("2024-001", "IYYY-IDDD"), ("2024-371", "IYYY-IDDD"),
    ("24-01-1", "IY-IW-ID"), ("124-01-1", "IYY-IW-ID"), ("4-01-1", "I-IW-ID"), ("2024-00-1", "IYYY-IW-ID"), ("2024-10-0", "IYYY-IW-ID"), ("2024-10-9", "IYYY-IW-ID"),
    ("2024-10 wed", "IYYY-IW dy"), ("2024011", "IYYYIWID"), ("2024 366", "IYYY IDDD"), ("1-01-1 BC", "IYYY-IW-ID BC"), ("366", "IDDD"),
    ("2451545", "J"), ("0", "J"), ("1", "J"), ("-1", "J"), ("2147483493", "J"), ("2147483494", "J"), ("99999999999", "J"), ("2460370 05", "J DD"),
    ("2024 Q1", "YYYY \"Q\"Q"), ("2024 3", "YYYY Q"), ("2024 x", "YYYY Q"), ("2024 3 5", "YYYY D DD"), ("31-04", "DD-MM"), ("30-02", "DD-MM"), ("31-02 2023", "DD-MM YYYY"),
    # Ordinals.
    ("1st 2nd 2000", "DDth MMth YYYY"), ("3rd January 1999th", "DDth Month YYYYth"), ("01st012000", "DDthMMYYYY"), ("é5éé06", "éDDthMM"),
    # Times of day.
    ("2000-01-01 13:05:09", "YYYY-MM-DD HH24:MI:SS"), ("2000-01-01 01:05 PM", "YYYY-MM-DD HH:MI AM"), ("12:00 am", "HH12:MI AM"), ("12:00 p.m.", "HH12:MI A.M."),
    ("12:30", "HH12:MI"), ("0:30", "HH12:MI"), ("13:30 PM", "HH12:MI PM"), ("13 PM", "HH24 PM"), ("11 PM", "HH24 PM"), ("PM 11", "AM HH"), ("AM PM", "AM PM"), ("PM AM", "AM PM"),
    ("24:00", "HH24:MI"), ("23:60", "HH24:MI"), ("23:59:60", "HH24:MI:SS"), ("-1", "HH24"), ("3600", "SSSS"), ("86399", "SSSSS"), ("86400", "SSSS"), ("3661 5", "SSSS MI"), ("4000", "FMSSSS"),
    ("12.3", "SS.MS"), ("12.30", "SS.MS"), ("12.003", "SS.MS"), ("12.3456", "SS.MS"), ("12.1234", "SS.US"), ("12.000001", "SS.US"), ("12.1234567", "SS.US"), ("12.500 3", "SS.MS US"),
    ("12.5", "SS.FF1"), ("12.55", "SS.FF1"), ("12.45", "SS.FF1"), ("59.99", "SS.FF1"), ("12.123456", "SS.FF3"), ("12.1239", "SS.FF3"), ("12.123456", "SS.FF6"), ("12.12", "SS.FF2"), ("123456", "SSFF2FF2"),
    ("1999-12-31 23:59:59.9996", "YYYY-MM-DD HH24:MI:SS.FF3"), ("1999-12-31 23:59:59.9995", "YYYY-MM-DD HH24:MI:SS.FF3"), ("1999-12-31 23:59:59.00050", "YYYY-MM-DD HH24:MI:SS.FF3"),
    ("130509", "HH24MISS"), ("1305", "HH24MISS"), ("1 3 5", "HH24MISS"), ("13:5:9", "HH24:MI:SS"), ("13.05.09", "HH24:MI:SS"), ("abc", "HH24"), ("12:ab", "HH24:MI"),
    ("2000-01-01T13:05:09Z", "YYYY-MM-DD\"T\"HH24:MI:SS\"Z\""), ("2000-01-01T13:05:09", "YYYY-MM-DDTHH24:MI:SS"),
    # Offsets.
    ("2011-12-18 11:38 +05", "YYYY-MM-DD HH12:MI TZH"), ("2011-12-18 11:38 -05", "YYYY-MM-DD HH12:MI TZH"), ("2011-12-18 11:38 +05:20", "YYYY-MM-DD HH12:MI TZH:TZM"),
    ("2011-12-18 11:38 -05:20", "YYYY-MM-DD HH12:MI TZH:TZM"), ("2011-12-18 11:38 20", "YYYY-MM-DD HH12:MI TZM"), ("2011-12-18 11:38-05", "YYYY-MM-DD HH12:MITZH"), ("2011-12-18 11:38 - 05", "YYYY-MM-DD HH12:MI TZH"),
    ("11:00-5", "HH24:MI-TZH"), ("11:00--5", "HH24:MI-TZH"), ("11:00 +15:59", "HH24:MI TZH:TZM"), ("11:00 +16", "HH24:MI TZH"), ("11:00 +05:60", "HH24:MI TZH:TZM"), ("11:00 +-5", "HH24:MI TZH"), ("2000 +0530", "YYYY TZHTZM"),
    ("2000 UTC", "YYYY TZ"), ("2000 GMT", "YYYY tz"), ("2000 +05", "YYYY OF"), ("11 +05 +06", "HH24 TZH TZH"), ("0001-01-01 00:00 +01 BC", "YYYY-MM-DD HH24:MI TZH BC"),
    # Conflicts and limits.
    ("2024 2023", "YYYY YYYY"), ("2024 2024", "YYYY YYYY"), ("2024 24", "YYYY YY"), ("2024-02 2024-10", "YYYY-MM IYYY-IW"), ("05 05", "MM MM"), ("05 06", "MM MM"), ("Jan 02", "Mon MM"),
    ("2024-13-01", "YYYY-MM-DD"), ("2024-00-01", "YYYY-MM-DD"), ("2024-01-32", "YYYY-MM-DD"), ("2023-02-29", "YYYY-MM-DD"), ("1900-02-29", "YYYY-MM-DD"), ("0001-02-29 BC", "YYYY-MM-DD BC"),
    ("99999999999", "YYYY"), ("-99999999999", "MM"), ("5874897-12-31", "YYYY-MM-DD"), ("5874898-01-01", "YYYY-MM-DD"), ("294276-12-31", "YYYY-MM-DD"), ("294277-01-01", "YYYY-MM-DD"),
    ("4714-11-24 BC", "YYYY-MM-DD BC"), ("4714-11-23 BC", "YYYY-MM-DD BC"), ("4714-10-31 BC", "YYYY-MM-DD BC"), ("2147483647", "YYYY"), ("2147483647 BC", "YYYY BC"), ("202", "YYYYMM"), ("202405", "YYYYMMDD"),
    ("2024ab01", "YYYYMMDD"), ("2024a101", "YYYYMMDD"), ("20240é01", "YYYYMMDD"), ("2024 1a 01", "YYYY MM DD"), ("9999-12-31 23:59:59.999999", "YYYY-MM-DD HH24:MI:SS.US"), ("0001-01-01", "YYYY-MM-DD"),
    ("1999999999", "MS"), ("4294968", "MS"), ("2147483647", "US"),
]

NUMBERS = ["0", "1", "-1", "0.1", "-0.1", "485", "-485", "148.5", "-12.5", "0.005", "-0.004", "99999.99", "1234567.891", "-1234567.891", "1000000000", "0.45", "-9.995"]
DIGITS = [
    "9", "99999", "9999999", "0000000", "9.9", "9.99", "99.99", "00.00", "9999.999", "FM9999.999", "FM0000.000", "FM9990.00", "FM999.990", ".99", "0.9", "FM.99", "FM9.9", "FM0.9",
    "9,999", "9,999,999.99", "9G999D99", "FM9,999,999.99", "FM9G999D999", "0,000,000.00", "S9999", "9999S", "S9999.99", "9999.99S", "FMS9999.9", "SG9999.99", "9999SG", "MI9999", "9999MI", "FM9999MI",
    "FMMI9999", "PL9999", "9999PL", "FM9999PL", "PLMI9999", "9999PR", "FM9999PR", "9,999.99PR", "999th", "999TH", "FM999th", "999.9th", "L999", "$999.99", "FML999.9", "RN", "rn", "FMRN", "fmrn",
    "9.99EEEE", "99.9999EEEE", "9EEEE", "9.9eeee", "99V9", "99V99", "V9", "99V", "9999V0", "B999", "B9", "C999", "SP999", '"Good number:"999', '999" units"', "9 9 9 9", "99--99", "", "x", "abc99", "0999", "9099.09", "99,99", "FM,9", ",999",
    "S.99", "9.9S", "FM9.9S", "FM99.00MI", "999D", "FM999D", "9.", "FM9.", "SFM9999999.99", "0S", "FM0,0", "9999 RN", "SGRN", "MIRN", ",RN", "9999999999999999999999999.9999999999999999999",
]
BAD_NUMBERS = ["9.9.9", "9V9.9", "9.9V9", "S9S", "S9MI", "S9PL", "S9SG", "9MIS", "9PLS", "SG9S", "9PRS", "S9PR", "9MIPR", "9PR9", "9PR0", "EEEE9", "9EEEEEEEE", "FM9EEEE", "S9EEEE", "B9EEEE", "9V9EEEE", "RNEEEE", "EEEERN", "9MIEEEE", "9D9D9"]
EXTREME = [
    ("dec", "99999999999999999999999999999999999999", "9999999999999999999999999999999999999999.99"), ("dec", "-99999999999999999999999999999999999999", "FM9,999,999,999,999,999,999,999,999,999,999,999,999,999.00"),
    ("dec", "0.00000000000000000000000000000000000001", "9.99EEEE"), ("dec", "0.00000000000000000000000000000000000001", "FM0.99999999999999999999999999999999999999999"), ("dec", "9.99", "9.9EEEE"), ("dec", "-9.96", "9.9EEEE"),
    ("dec", "0", "9.99EEEE"), ("dec", "123456789012345678901234567890", "9.999EEEE"), ("dec", "3999.4", "RN"), ("dec", "3999.5", "RN"), ("dec", "0.5", "RN"), ("dec", "-1", "RN"), ("dec", "2147483647.5", "RN"), ("dec", "99999999999", "rn"),
    ("dec", "1.5", "9." + "9" * 1200), ("dec", "12", "99V" + "9" * 1200), ("dec", "12", "9" * 1500), ("dec", "-12", "FM" + "0" * 1500), ("dec", "1", "RN" * 600), ("dec", "5", "TH"), ("dec", "5", "V"), ("dec", "1.25", "9.9"), ("dec", "-1.25", "9.9"),
    ("int", "25", "9EEEE"), ("int", "35", "9EEEE"), ("int", "-2147483648", "9999999999"), ("int", "2147483647", "9.999999999EEEE"), ("int", "12", "99V999999999"), ("int", "12", "99V9999999999"), ("int", "13", "99V9999999999"), ("int", "1999", "RN"), ("int", "4000", "RN"), ("int", "888", "rn"),
    ("int", "3", "9.99"), ("int", "-3", "FM9.99"), ("int", "3", "FM9.90"), ("int", "12", "99V99"),
    ("big", "9223372036854775807", "9999999999999999999"), ("big", "-9223372036854775808", "9G999G999G999G999G999G999PR"), ("big", "9223372036854775807", "99V9"), ("big", "12", "99V9999999999999999999"), ("big", "25", "9EEEE"), ("big", "99999999999", "RN"), ("big", "12", "99V99"), ("big", "12345", "9.99EEEE"), ("big", "7", "9.99"),
]
FLOATS = ["NaN", "Infinity", "-Infinity", "0", "-0", "0.1", "-0.001", "2.5", "3.5", "-0.5", "1e15", "123456789012.345", "1e300", "-1e-300", "12345.678", "0.3", "1e20", "99.995"]
FLOAT_PATTERNS = ["999", "9999999999", "999.99", "FM999.99", "9.99EEEE", "RN", "999th", "S999", "999PR", "99V99", "999999999999999.9999999", "9", "9999999999999999999999.99\"x\"", "MI99999999", "FM9999999999.9999999999", "0.9", "9.999999999999999999EEEE"]
TO_NUMBER = [
    ("123", "999"), ("-123", "999"), ("+123", "999"), ("12,454.8-", "99G999D9S"), ("12,454.8-", "99,999.9S"), ("-34,338,492", "99G999G999"), ("-34,338,492.654,878", "99G999G999D999G999"), ("<564646.654564>", "999999.999999PR"),
    ("0.00001-", "9.999999S"), ("5.01-", "FM9.999999S"), ("5.01-", "FM9.999999MI"), ("5 4 4 4 4 8 . 7 8", "9 9 9 9 9 9 . 9 9"), (".01", "FM9.99"), (".0", "99999999.99999999"), ("0", "99.99"), (".-01", "S99.99"), (".01-", "99.99S"), (" . 0 1-", " 9 9 . 9 9 S"),
    ("34,50", "999,99"), ("123,000", "999G"), ("123456", "999G999"), ("$1234.56", "L9,999.99"), ("$1234.56", "L99,999.99"), ("$1,234.56", "L99,999.99"), ("1234.56", "L99,999.99"), ("1,234.56", "L99,999.99"), ("42nd", "99th"), ("123456", "99999V99"), ("12345", "99V999"), ("12", "99V"), ("12345", "99V999999999999999999"),
    ("1234567890123456", "9V999999999999999"), ("", "999"), (" ", "999"), ("abc", "999"), ("-", "999"), ("a1b2", "9999"), ("123", "9.9"), ("1.23", "9"), ("1.234", "9.99"), ("123", "99"), ("0123", "999"), ("00123", "999"), ("123.", "999."), (".", "9.9"), ("1..5", "9.99"), ("1e5", "9999"), ("12é4", "99é9"), ("é12", "é99"), ("é12", "999"), ("12.5", "99.9th"),
    ("123", ""), ("XIV", "RN"), ("1e5", "9EEEE"), ("-5", "MI9"), ("5-", "9MI"), ("+5", "PL9"), ("5+", "9PL"), ("-5", "SG9"), ("5-", "9SG"), ("5 -", "9SG"), ("$-5", "LMI9"), ("-5", "S9"), ("5-", "S9"), ("- 5", "S99"), ("-5-", "9MI"), ("<5>", "9PR"), ("<5", "9PR"), ("5", "9PR"), ("1,234", "9999"), ("1,234", "9,999"), ("1234", "9,999"), ("1,234", "FM9,999"), ("12 34", "99 99"), ("1 2 3", "999"), ("123abc", "999"), ("123abc", '999"abc"'),
    ("99999999999999999999999999999999999999", "9" * 38), ("1", "9" * 1500), ("1" * 20, "0" * 20), ("12.34", "99D99"), ("12.34", "99G99"), ("0012.3400", "9999.9999"), ("-0", "9"), ("-0.00", "9.99"), ("5", "."), ("5", "V9"), ("5.5", ".9"), ("1.5", "B9.9"), ("1.5", "C9.9"), ("12th", "99TH"), ("12", "99S"), ("-12", "99S"), ("1-2", "99S"), ("1-2", "99MI"), ("1-2", "99"), ("+-1", "999"),
]


def moments():
    cases = [("ts", moment, pattern) for moment in MOMENTS for pattern in WRITTEN]
    cases += [("ts", edge + " 00:00:00" if not edge.endswith("BC") else edge[:-3] + " 00:00:00 BC", "IYYY IW ID IDDD|YYYY WW D DDD J CC Day") for edge in EDGES]
    cases += [("ts", f"2024-01-01 {hour:02}:59:59", "HH12 HH24 AM a.m. SSSS") for hour in (0, 1, 11, 12, 13, 23)]
    cases += [("ts", f"2024-{month:02}-11 00:00:00", "MONTH Month Mon RM rm Q DDDth") for month in range(1, 13)]
    cases += [("ts", "2024-05-03 14:02:01.5", pattern) for pattern in LITERALS]
    cases += [("ts", f"{year}-01-01 00:00:00" + era, "CC FMCC CCth YYYY IYYY Y,YYY AD") for year, era in (("0099", ""), ("0100", ""), ("0101", ""), ("9901", ""), ("10001", ""), ("0100", " BC"), ("0101", " BC"))]
    cases += [("ts", "2024-05-03 14:02:01", "YYYY-MM-DD " * 200), ("ts", "2024-05-03 14:02:01", "x" * 2000), ("ts", "2024-05-03 14:02:01", "FM" * 1000)]
    cases += [("tz", f"{at}|{zone}", pattern) for at, zone in ZONES for pattern in ("TZ tz TZH TZM OF FMOF", "YYYY-MM-DD HH24:MI:SSOF")]
    return cases


def spans():
    cases = [("iv", span, pattern) for span in SPANS for pattern in SPAN_PATTERNS]
    return cases + [("iv", "14 3 3723123456", pattern) for pattern in NOT_OF_SPANS]


def texts():
    dated = [("date", text, pattern) for text, pattern in READ]
    timed = [("time", text, pattern) for text, pattern in READ]
    return dated + timed + [("time", "2024 " * 300, "YYYY " * 300), ("date", "5" * 3000, "YYYY"), ("date", "2024", "Y" * 3000)]


def numbers():
    cases = [("dec", number, pattern) for number in NUMBERS for pattern in DIGITS[:46]]
    cases += [("dec", number, pattern) for number in ("12.5", "-485", "0") for pattern in DIGITS[46:]]
    cases += [("dec", number, "999th|FM999th|999TH") for number in ("1", "2", "3", "4", "11", "12", "13", "21", "101", "111", "-1")]
    cases += [("dec", "1", pattern) for pattern in BAD_NUMBERS] + [("num", "1", pattern) for pattern in BAD_NUMBERS[:6]]
    cases += EXTREME
    cases += [("flt", number, pattern) for number in FLOATS for pattern in FLOAT_PATTERNS]
    cases += [("real", number, pattern) for number in ("NaN", "1234567.5", "0.1", "-12.345", "1e30") for pattern in ("9999999.999", "FM999.99999", "9.99EEEE", "99V99", "9" * 35)]
    return cases + [("num", text, pattern) for text, pattern in TO_NUMBER]


def main():
    cases = moments() + spans() + texts() + numbers()
    target = pathlib.Path(__file__).resolve().parent.parent / "cases.tsv"
    target.write_text(answers(cases))
    print(f"{len(cases)} cases in {target}")


main()
