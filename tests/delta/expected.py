"""The CSV form of expected answers, and the manifest; shared by by_delta_rs.py and by_spark.py.

CSV: header of quoted column names, LF line ends, rows sorted by the columns left to right (NULL last).
  NULL            empty field, unquoted (an empty string is "")
  string          always quoted, " doubled
  binary          quoted lower-case hex
  boolean         true / false
  integers        decimal digits;  decimal: exactly its scale's digits, never an exponent
  float, double   shortest text that round-trips in its own width, as Python's repr (1.5, 1e+300, -0.0); NaN, inf, -inf
  date            2024-01-02
  timestamp[_ntz] 2024-01-02T03:04:05 or, if there are microseconds, 2024-01-02T03:04:05.123456 (UTC, no zone)
  array           quoted JSON array;  struct: quoted JSON object in field order;  map: quoted JSON object sorted by key
                  (inside JSON: leaves that are not JSON numbers/booleans/null are JSON strings, in the form above; no spaces)
"""
import datetime, decimal, json, os, struct
import pyarrow as pa


def _f(v, single):
    if v != v:
        return 'NaN'
    if v in (float('inf'), float('-inf')):
        return 'inf' if v > 0 else '-inf'
    if single:
        for p in range(1, 10):
            c = float('%.*g' % (p, v))
            try:
                if struct.pack('<f', c) == struct.pack('<f', v):
                    return repr(c)
            except OverflowError:
                pass
    return repr(v)


def _leaf(v, t):
    """text of a non-nested, non-NULL value"""
    if pa.types.is_boolean(t):
        return 'true' if v else 'false'
    if pa.types.is_float32(t) or pa.types.is_float64(t):
        return _f(v, pa.types.is_float32(t))
    if pa.types.is_decimal(t):
        return format(v, 'f')
    if isinstance(v, (bytes, bytearray)):
        return bytes(v).hex()
    if pa.types.is_timestamp(t):
        if v.tzinfo is not None:
            v = v.astimezone(datetime.timezone.utc).replace(tzinfo=None)
        return v.isoformat()
    if isinstance(v, datetime.date):
        return v.isoformat()
    return str(v)


def _is_list(t):
    return (pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_list_view(t)
            or pa.types.is_large_list_view(t) or pa.types.is_fixed_size_list(t))


def _is_text(t):
    return pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t)


def _is_bin(t):
    return pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_binary_view(t) or pa.types.is_fixed_size_binary(t)


def _json(v, t):
    if v is None:
        return 'null'
    if _is_list(t):
        return '[' + ','.join(_json(x, t.value_type) for x in v) + ']'
    if pa.types.is_map(t):
        it = sorted((_leaf(k, t.key_type), x) for k, x in v)
        return '{' + ','.join(json.dumps(k, ensure_ascii=False) + ':' + _json(x, t.item_type) for k, x in it) + '}'
    if pa.types.is_struct(t):
        return '{' + ','.join(json.dumps(f.name, ensure_ascii=False) + ':' + _json(v[f.name], f.type) for f in t) + '}'
    s = _leaf(v, t)
    if pa.types.is_boolean(t) or pa.types.is_integer(t):
        return s
    if (pa.types.is_floating(t) and s not in ('NaN', 'inf', '-inf')) or pa.types.is_decimal(t):
        return s
    return json.dumps(s, ensure_ascii=False)


def _q(s):
    return '"' + s.replace('"', '""') + '"'


def plain_type(t):
    if isinstance(t, pa.BaseExtensionType):
        return t.storage_type
    return t


def csv_rows(tab):
    cols, keys = [], []
    for i, field in enumerate(tab.schema):
        t = field.type
        if pa.types.is_dictionary(t):
            tab = tab.set_column(i, field.name, tab.column(i).cast(t.value_type))
            t = t.value_type
        vals = tab.column(i).to_pylist()
        nested = _is_list(t) or pa.types.is_map(t) or pa.types.is_struct(t)
        if nested:
            txt = [None if v is None else _q(_json(v, t)) for v in vals]
            key = txt
        else:
            quote = _is_text(t) or _is_bin(t)
            raw = [None if v is None else _leaf(v, t) for v in vals]
            txt = [None if s is None else (_q(s) if quote else s) for s in raw]
            # sort by value, bytes order for text; NaN after everything but NULL
            if _is_text(t):
                key = [None if s is None else s.encode() for s in raw]
            elif pa.types.is_floating(t):
                key = [None if v is None else ((1, 0.0) if v != v else (0, v)) for v in vals]
            else:
                key = vals
        cols.append(['' if s is None else s for s in txt])
        keys.append([(1, 0) if k is None else (0, k) for k in key])
    n = tab.num_rows
    rows = [','.join(c) for c in zip(*cols)] if cols else [''] * n
    if not keys:
        return rows
    order = sorted(range(n), key=lambda i: tuple(k[i] for k in keys))
    return [rows[i] for i in order]


def csv_text(tab):
    return '\n'.join([','.join(_q(c) for c in tab.column_names)] + csv_rows(tab)) + '\n'


class Manifest:
    """OUT_DIR/manifest-PROGRAM.json: per table its protocol, and per expected file version, rows and columns"""

    def __init__(self, out, program, about):
        self.path = os.path.join(out, 'manifest-%s.json' % program)
        self.m = {'about': about, 'tables': {}}

    def table(self, name, **kw):
        self.m['tables'].setdefault(name, {'versions': {}}).update(kw)

    def version(self, name, v, rows, columns, file):
        self.m['tables'].setdefault(name, {'versions': {}})['versions'][str(v)] = {'rows': rows, 'file': file, 'columns': columns}

    def failed(self, name, why):
        self.m.setdefault('not_made', {})[name] = why

    def save(self):
        with open(self.path, 'w') as f:
            json.dump(self.m, f, indent=1, ensure_ascii=False)
            f.write('\n')


def write_expected(out, name, version, last, tab, manifest):
    text = csv_text(tab)
    files = ['%s@%d.expected.csv' % (name, version)] + (['%s.expected.csv' % name] if last else [])
    for fn in files:
        with open(os.path.join(out, fn), 'w', newline='') as f:
            f.write(text)
    manifest.version(name, version, tab.num_rows, {f.name: str(f.type) for f in tab.schema}, files[0])
    return text


def log_protocol(table_dir):
    """the newest protocol and metaData actions in the table's JSON commits (None if only a checkpoint has them)"""
    proto = meta = None
    d = os.path.join(table_dir, '_delta_log')
    for fn in sorted(os.listdir(d)):
        if len(fn) == 25 and fn.endswith('.json') and fn[:20].isdigit():
            with open(os.path.join(d, fn)) as f:
                for line in f:
                    if line.strip():
                        a = json.loads(line)
                        proto = a.get('protocol', proto)
                        meta = a.get('metaData', meta)
    return proto, meta
