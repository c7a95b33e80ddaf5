#!/usr/bin/env python3
"""by_delta_rs.py OUT_DIR [NAME...]: Delta tables written by delta-rs (PyPI deltalake), with the answers that delta-rs gives.
   by_delta_rs.py --check OUT_DIR: delta-rs reads every version of by_spark.py's tables in OUT_DIR and compares with their expected files."""
import datetime as dt, decimal, glob, json, os, shutil, sys, traceback
import pyarrow as pa
import deltalake
from deltalake import DeltaTable, QueryBuilder, WriterProperties, PostCommitHookProperties, write_deltalake
from expected import Manifest, csv_text, log_protocol, write_expected

UTC = dt.timezone.utc
NOHOOK = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


def read_both(path, v):
    """a version as delta-rs reads it: by DataFusion (QueryBuilder); checked against to_pyarrow_table"""
    t = DeltaTable(path, version=v)
    q = pa.table(QueryBuilder().register('t', t).execute('select * from t').read_all())
    names = [f.name for f in t.schema().fields]
    q = q.select(names)
    note = None
    try:
        a = t.to_pyarrow_table().select(names)
        if csv_text(a) != csv_text(q):
            note = 'to_pyarrow_table differs from QueryBuilder at version %d' % v
    except Exception as e:
        note = 'to_pyarrow_table fails at version %d: %s' % (v, str(e)[:200])
    return q, note


class Ctx:
    def __init__(self, out, man):
        self.out, self.man = out, man

    def path(self, name):
        p = os.path.join(self.out, name)
        shutil.rmtree(p, ignore_errors=True)
        for f in glob.glob(os.path.join(self.out, name) + '.expected.csv') + glob.glob(os.path.join(self.out, name) + '@*.expected.csv'):
            os.remove(f)
        return p

    def expect(self, name, versions=None):
        p = os.path.join(self.out, name)
        t = DeltaTable(p)
        last = t.version()
        notes = []
        for v in (range(last + 1) if versions is None else versions):
            q, note = read_both(p, v)
            if note:
                notes.append(note)
            write_expected(self.out, name, v, v == last, q, self.man)
        pr = t.protocol()
        self.man.table(name, last_version=last, operations=[h['operation'] for h in reversed(t.history())],
                       min_reader=pr.min_reader_version, min_writer=pr.min_writer_version,
                       reader_features=sorted(pr.reader_features or []), writer_features=sorted(pr.writer_features or []),
                       partition_columns=t.metadata().partition_columns, configuration=t.metadata().configuration, notes=notes)


def people(lo, hi):
    ids = list(range(lo, hi))
    return pa.table({
        'id': pa.array(ids, pa.int64()),
        'name': pa.array([None if i % 11 == 3 else 'name-%d' % i for i in ids], pa.string()),
        'score': pa.array([None if i % 7 == 5 else i * 0.37 for i in ids], pa.float64()),
        'day': pa.array([dt.date(2024, 1, 1) + dt.timedelta(days=i % 400) for i in ids], pa.date32()),
        'ok': pa.array([None if i % 13 == 0 else i % 2 == 0 for i in ids], pa.bool_()),
    })


def plain(c):
    p = c.path('plain')
    write_deltalake(p, people(0, 500))
    write_deltalake(p, people(500, 900), mode='append')
    DeltaTable(p).delete('id % 10 = 4 or (score is null and id > 600)')
    DeltaTable(p).update(predicate='id between 100 and 199', updates={'name': "'upd ''' || cast(id as varchar)", 'score': 'score + 1000'})
    src = people(850, 1000).set_column(1, 'name', pa.array(['merged, "%d"' % i for i in range(850, 1000)]))
    (DeltaTable(p).merge(src, 't.id = s.id', source_alias='s', target_alias='t')
        .when_matched_delete('s.id % 5 = 0')
        .when_matched_update({'name': 's.name', 'score': 's.score'})
        .when_not_matched_insert_all().execute())
    DeltaTable(p).delete('id >= 0 and id < 20')
    c.expect('plain')


CITIES = ['plain', 'with space', 'a/b', 'naïve Zürich 東京 🦌', '100%', '50%20off', 'x=y', "it's", 'q"uote', 'c:d', 'e?f#g&h+i',
          'back\\slash', ' lead and trail ', 'dot.', '.hidden', '_under', '[b]{c}|^~`*<>', None]


def parted(c):
    p = c.path('parted')

    def part(lo, hi):
        ids = range(lo, hi)
        return pa.table({
            'id': pa.array(ids, pa.int64()),
            'city': pa.array([CITIES[i % len(CITIES)] for i in ids], pa.string()),
            'day': pa.array([None if i % 4 == 3 else dt.date(1969, 12, 31) + dt.timedelta(days=10000 * (i % 4)) for i in ids], pa.date32()),
            'v': pa.array([None if i % 9 == 0 else i * 1.25 for i in ids], pa.float64()),
        })
    write_deltalake(p, part(0, 120), partition_by=['city', 'day'])
    write_deltalake(p, part(120, 160), mode='append')
    DeltaTable(p).delete("city = 'a/b'")
    DeltaTable(p).delete('city is null and id < 60')
    DeltaTable(p).update(predicate="city = '100%'", updates={'city': "'50%20off'"})
    c.expect('parted')


def parted_types(c):
    # no negative decimal: deltalake 1.6.6 writes it as '-12345678.-90' in partitionValues and then fails on it
    p = c.path('parted_types')
    n = 4
    cols = {
        'id': pa.array(range(n), pa.int64()),
        'p_byte': pa.array([-128, 0, 127, None], pa.int8()),
        'p_short': pa.array([-32768, 0, 32767, None], pa.int16()),
        'p_int': pa.array([-2**31, 0, 2**31 - 1, None], pa.int32()),
        'p_long': pa.array([-2**63, 0, 2**63 - 1, None], pa.int64()),
        'p_float': pa.array([-1.5, 0.1, 3.0e38, None], pa.float32()),
        'p_double': pa.array([-1.5, 0.1, 1.5e20, None], pa.float64()),
        'p_dec': pa.array([decimal.Decimal('12345678.90'), decimal.Decimal('0.01'), decimal.Decimal('99999999.99'), None], pa.decimal128(10, 2)),
        'p_bool': pa.array([True, False, True, None], pa.bool_()),
        'p_date': pa.array([dt.date(1900, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31), None], pa.date32()),
        'p_ts': pa.array([dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), dt.datetime(2024, 2, 29, 12, 0, 0, 0, UTC),
                          dt.datetime(2024, 1, 2, 3, 4, 5, 123456, UTC), None], pa.timestamp('us', 'UTC')),
        'p_ntz': pa.array([dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 2, 29, 12), dt.datetime(2024, 1, 2, 3, 4, 5, 123456), None], pa.timestamp('us')),
        'p_str': pa.array(['', 'a', 'b', None], pa.string()),   # '' in partition values is NULL to the protocol
    }
    write_deltalake(p, pa.table(cols), partition_by=[k for k in cols if k != 'id'])
    more = {k: v.slice(1, 1) for k, v in cols.items()}
    more['id'] = pa.array([10], pa.int64())
    write_deltalake(p, pa.table(more), mode='append')
    c.expect('parted_types')


def evolved(c):
    p = c.path('evolved')
    write_deltalake(p, pa.table({'id': pa.array(range(50), pa.int64()), 'a': pa.array(['a%d' % i for i in range(50)])}))
    write_deltalake(p, pa.table({'id': pa.array(range(50, 80), pa.int64()), 'a': pa.array(['a%d' % i for i in range(50, 80)]),
                                 'b': pa.array([i * 0.5 for i in range(50, 80)], pa.float64())}), mode='append', schema_mode='merge')
    # a file without the column a, and a new nested column
    write_deltalake(p, pa.table({'id': pa.array(range(80, 90), pa.int64()),
                                 's': pa.array([{'x': i, 'y': 'y%d' % i} for i in range(80, 90)], pa.struct([('x', pa.int32()), ('y', pa.string())]))}),
                    mode='append', schema_mode='merge')
    # a field added in the struct
    write_deltalake(p, pa.table({'id': pa.array(range(90, 95), pa.int64()), 'a': pa.array(['a%d' % i for i in range(90, 95)]), 'b': pa.array([1.0] * 5),
                                 's': pa.array([{'x': i, 'y': None, 'z': i * 1.5} for i in range(90, 95)],
                                               pa.struct([('x', pa.int32()), ('y', pa.string()), ('z', pa.float64())]))}),
                    mode='append', schema_mode='merge')
    DeltaTable(p).update(predicate='id = 3', updates={'b': '3.25'})
    c.expect('evolved')


def checkpointed(c):
    p = c.path('checkpointed')
    conf = {'delta.logRetentionDuration': 'interval 0 seconds', 'delta.checkpointInterval': '1000', 'delta.enableExpiredLogCleanup': 'false'}
    write_deltalake(p, people(0, 40), configuration=conf, post_commithook_properties=NOHOOK)
    for v in range(1, 25):
        if v % 6 == 0:
            DeltaTable(p).delete('id %% 17 = %d' % (v % 17), post_commithook_properties=NOHOOK)
        else:
            write_deltalake(p, people(v * 40, v * 40 + 40), mode='append', post_commithook_properties=NOHOOK)
        if v == 10 or v == 19:
            DeltaTable(p).create_checkpoint()
    log = os.path.join(p, '_delta_log')
    before = sorted(os.listdir(log))
    old = {v: csv_text(read_both(p, v)[0]) for v in (19, 22, 24)}
    DeltaTable(p).cleanup_metadata()
    after = sorted(os.listdir(log))
    c.man.table('checkpointed', removed_log_files=[f for f in before if f not in after], log_files=after)
    first = min(int(f[:20]) for f in after if f[:20].isdigit() and (f.endswith('.checkpoint.parquet') or int(f[:20]) == 0))
    c.expect('checkpointed', range(first, 25))
    for v, text in old.items():   # the same answers as before the cleanup
        assert open(os.path.join(c.out, 'checkpointed@%d.expected.csv' % v)).read() == text, v


def logcompacted(c):
    p = c.path('logcompacted')
    write_deltalake(p, people(0, 30), post_commithook_properties=NOHOOK)
    for v in range(1, 9):
        if v % 3 == 0:
            DeltaTable(p).delete('id %% 5 = %d' % (v % 5), post_commithook_properties=NOHOOK)
        else:
            write_deltalake(p, people(v * 30, v * 30 + 30), mode='append', post_commithook_properties=NOHOOK)
    DeltaTable(p).compact_logs(2, 6)
    c.man.table('logcompacted', log_files=sorted(os.listdir(os.path.join(p, '_delta_log'))))
    c.expect('logcompacted')


def optimized(c):
    p = c.path('optimized')
    for v in range(6):
        write_deltalake(p, people(v * 100, v * 100 + 100), mode='append')
    DeltaTable(p).delete('id between 507 and 531')
    before = csv_text(read_both(p, 6)[0])
    DeltaTable(p).optimize.compact()
    gone = DeltaTable(p).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    first = DeltaTable(p).history()
    comp = [h['version'] for h in first if h['operation'] == 'OPTIMIZE'][0]
    write_deltalake(p, people(600, 640), mode='append')
    c.man.table('optimized', vacuumed_files=len(gone), data_files=len(glob.glob(p + '/*.parquet')), unreadable_versions='0..%d (files gone)' % (comp - 1))
    c.expect('optimized', range(comp, DeltaTable(p).version() + 1))
    assert open(os.path.join(c.out, 'optimized@%d.expected.csv' % comp)).read() == before


TYPES = pa.schema([
    ('id', pa.int64()),
    ('c_byte', pa.int8()), ('c_short', pa.int16()), ('c_int', pa.int32()), ('c_long', pa.int64()),
    ('c_float', pa.float32()), ('c_double', pa.float64()),
    ('c_dec38_10', pa.decimal128(38, 10)), ('c_dec9_2', pa.decimal128(9, 2)), ('c_dec18_0', pa.decimal128(18, 0)),
    ('c_string', pa.string()), ('c_binary', pa.binary()), ('c_bool', pa.bool_()), ('c_date', pa.date32()),
    ('c_ts', pa.timestamp('us', 'UTC')), ('c_ntz', pa.timestamp('us')),
    ('c_arr', pa.list_(pa.int32())), ('c_struct', pa.struct([('a', pa.int32()), ('b', pa.string()), ('c', pa.struct([('d', pa.date32())]))])),
    ('c_map', pa.map_(pa.string(), pa.int64())),
    ('c_arr_struct', pa.list_(pa.struct([('x', pa.float64()), ('t', pa.timestamp('us', 'UTC'))]))),
    ('c_map_arr', pa.map_(pa.string(), pa.list_(pa.string()))),
])
D = decimal.Decimal
TYPE_ROWS = [
    (0, -128, -32768, -2**31, -2**63, -1.5, -1.5, D('-1234567890123456789012345678.0123456789'), D('-9999999.99'), D('-999999999999999999'),
     '', b'', True, dt.date(1, 1, 1), dt.datetime(1900, 1, 1, 0, 0, 0, 1, UTC), dt.datetime(1900, 1, 1, 0, 0, 0, 1),
     [], {'a': 1, 'b': '', 'c': {'d': dt.date(2024, 2, 29)}}, [], [], []),
    (1, 127, 32767, 2**31 - 1, 2**63 - 1, 0.1, 0.1, D('9999999999999999999999999999.9999999999'), D('9999999.99'), D('999999999999999999'),
     'quote " comma , newline \n tab \t', b'\x00\xff\x7f', False, dt.date(9999, 12, 31), dt.datetime(2024, 1, 2, 3, 4, 5, 123456, UTC),
     dt.datetime(2024, 1, 2, 3, 4, 5, 123456), [1, None, -3], {'a': None, 'b': None, 'c': None}, [('k', 1), ('a"b', None)],
     [{'x': 1.5, 't': dt.datetime(2024, 1, 2, 3, 4, 5, 0, UTC)}, None, {'x': None, 't': None}], [('e', []), ('n', None), ('v', ['x', None, ''])]),
    (2, 0, 0, 0, 0, float('nan'), float('nan'), D('0E-10'), D('0.00'), D('0'), 'naïve 東京 🦌', 'é'.encode(), None, dt.date(1970, 1, 1),
     dt.datetime(1970, 1, 1, tzinfo=UTC), dt.datetime(1970, 1, 1), [0], {'a': 0, 'b': 'ü', 'c': {'d': None}}, [('', 0)], [], [('k', ['v'])]),
    (3, 1, 1, 1, 1, float('inf'), float('-inf'), D('0.0000000001'), D('0.01'), D('1'), 'NULL', b'NULL', True, dt.date(1969, 12, 31),
     dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), None, None, None, None, None),
    (4, -1, -1, -1, -1, -0.0, -0.0, D('-0.0000000001'), D('-0.01'), D('-1'), '\\N', b'\n', False, dt.date(2000, 2, 29),
     dt.datetime(2038, 1, 19, 3, 14, 8, 0, UTC), dt.datetime(2038, 1, 19, 3, 14, 8), [2**31 - 1], {'a': 5, 'b': 'x', 'c': None}, [('z', -1)],
     [{'x': 0.1, 't': None}], [('q', [])]),
    (5, 7, 7, 7, 7, 3.4028234663852886e38, 1.7976931348623157e308, D('1'), D('1'), D('1'), 'x' * 300, bytes(range(256)), True, dt.date(2024, 1, 1),
     dt.datetime(9999, 12, 31, 23, 59, 59, 999999, UTC), dt.datetime(9999, 12, 31, 23, 59, 59, 999999), list(range(20)),
     {'a': -5, 'b': 'y', 'c': {'d': dt.date(1, 1, 1)}}, [('k%d' % i, i) for i in range(12)], [], []),
    (6, -7, -7, -7, -7, 1.401298464324817e-45, 5e-324, D('-1'), D('-1'), D('-1'), ' ', b' ', False, dt.date(1582, 10, 15),
     dt.datetime(1582, 10, 15, 0, 0, 0, 0, UTC), dt.datetime(1582, 10, 15), [None], {'a': 1, 'b': 'z', 'c': {'d': dt.date(9999, 12, 31)}}, [('n', None)], [None], [('x', [None])]),
    (7,) + (None,) * 20,
]


def type_table(rows):
    return pa.table([pa.array([r[i] for r in rows], f.type) for i, f in enumerate(TYPES)], schema=TYPES)


def types(c):
    p = c.path('types')
    write_deltalake(p, type_table(TYPE_ROWS[:4]))
    write_deltalake(p, type_table(TYPE_ROWS[4:]), mode='append')
    write_deltalake(p, type_table([(100 + i,) + (None,) * 20 for i in range(30)]), mode='append')   # a file with all NULL
    DeltaTable(p).delete('c_int = 1')
    c.expect('types')


def empty(c):
    p = c.path('empty')
    DeltaTable.create(p, pa.schema([('id', pa.int64()), ('name', pa.string()), ('at', pa.timestamp('us', 'UTC')), ('l', pa.list_(pa.string()))]))
    DeltaTable(p).alter.set_table_properties({'delta.appendOnly': 'false'})
    c.expect('empty')


def emptied(c):
    p = c.path('emptied')
    write_deltalake(p, people(0, 20))
    DeltaTable(p).delete()
    c.expect('emptied')


def overwritten(c):
    p = c.path('overwritten')
    write_deltalake(p, people(0, 100))
    write_deltalake(p, people(50, 60), mode='overwrite')
    write_deltalake(p, people(60, 65), mode='append')
    write_deltalake(p, pa.table({'key': pa.array(['k1', 'k2', None]), 'id': pa.array(['now', 'a', 'string']), 'n': pa.array([1, None, 3], pa.int32())}),
                    mode='overwrite', schema_mode='overwrite')
    write_deltalake(p, pa.table({'key': pa.array(['k4']), 'id': pa.array(['z']), 'n': pa.array([4], pa.int32())}), mode='append')
    write_deltalake(p, pa.table({'key': pa.array(['k4', 'k4']), 'id': pa.array(['y', 'x']), 'n': pa.array([44, 45], pa.int32())}), mode='overwrite', predicate="key = 'k4'")
    c.expect('overwritten')


def groups(c):
    """several row groups and pages per file, sorted ids, statistics in the log only for the first column"""
    p = c.path('groups')
    conf = {'delta.dataSkippingNumIndexedCols': '1'}
    wp = WriterProperties(max_row_group_size=500, data_page_row_count_limit=100, write_batch_size=100, compression='ZSTD')
    write_deltalake(p, people(0, 3000), configuration=conf, writer_properties=wp)
    write_deltalake(p, people(3000, 5000), mode='append', writer_properties=wp)
    DeltaTable(p).delete('id between 1200 and 1300', writer_properties=wp)
    c.expect('groups')


ALL = [plain, parted, parted_types, evolved, checkpointed, logcompacted, optimized, types, empty, emptied, overwritten, groups]

def check(out):
    m = json.load(open(os.path.join(out, 'manifest-spark.json')))
    res = {}
    for name, t in m['tables'].items():
        for v, x in t['versions'].items():
            want = open(os.path.join(out, x['file']), newline='').read()
            try:
                t2 = DeltaTable(os.path.join(out, name), version=int(v))
                q = pa.table(QueryBuilder().register('t', t2).execute('select * from t').read_all())
                got = csv_text(q.select([f.name for f in t2.schema().fields]))
                r = 'same'
                if got != want:
                    w, g = want.split('\n'), got.split('\n')
                    d = [(a, b) for a, b in zip(w, g) if a != b]
                    r = 'DIFFERS: %d lines by Spark, %d by deltalake; first: Spark %r, deltalake %r' % (len(w), len(g), *(d[0] if d else ('', '')))
            except BaseException as e:
                r = 'deltalake fails: %s: %s' % (type(e).__name__, str(e).split('\n')[0][:300])
            res['%s@%s' % (name, v)] = r
            if r != 'same':
                print(name, v, r)
    print('%d of %d versions the same in deltalake' % (sum(r == 'same' for r in res.values()), len(res)))
    with open(os.path.join(out, 'check-deltalake-reads-spark.json'), 'w') as f:
        json.dump(res, f, indent=1, ensure_ascii=False)


if __name__ == '__main__':
    if sys.argv[1] == '--check':
        check(os.path.abspath(sys.argv[2]))
        sys.exit(0)
    out = os.path.abspath(sys.argv[1])
    os.makedirs(out, exist_ok=True)
    man = Manifest(out, 'deltalake', 'deltalake %s, pyarrow %s' % (deltalake.__version__, pa.__version__))
    c = Ctx(out, man)
    bad = 0
    for f in ALL:
        if sys.argv[2:] and f.__name__ not in sys.argv[2:]:
            continue
        try:
            f(c)
            t = man.m['tables'][f.__name__]
            print('%-14s versions %s rows %s %s' % (f.__name__, ' '.join(t['versions']), ' '.join(str(x['rows']) for x in t['versions'].values()), t['notes'] or ''))
        except Exception as e:
            bad = 1
            traceback.print_exc()
            man.failed(f.__name__, '%s: %s' % (type(e).__name__, str(e)[:500]))
    if not sys.argv[2:]:
        man.save()
    sys.exit(bad)
