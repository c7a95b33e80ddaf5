# Ruby's pg as programs use it: a line `name<TAB>answer` for each check, an error as its SQLSTATE.
require 'pg'

def check(name)
  c = PG.connect
  answer = yield(c).inspect
rescue PG::Error => e
  answer = "SQLSTATE #{e.respond_to?(:result) && e.result ? e.result.error_field(PG::PG_DIAG_SQLSTATE) : e.class}"
rescue StandardError => e
  answer = "error #{e.class}"
ensure
  puts "#{name}\t#{answer.gsub("\n", '\n')}"
  c&.close
end

def mapped(c)
  c.type_map_for_results = PG::BasicTypeMapForResults.new(c)
  c.type_map_for_queries = PG::BasicTypeMapForQueries.new(c)
  c
end

check('setup') do |c|
  ['DROP TABLE IF EXISTS rb_rows', 'CREATE TABLE rb_rows (id INT PRIMARY KEY, name TEXT, amount NUMERIC(10,2), ok BOOLEAN, d DATE, ts TIMESTAMP, f DOUBLE PRECISION, raw BYTEA, ia INT[], ta TEXT[])',
   "INSERT INTO rb_rows VALUES (1, 'one', 1.5, true, '2024-01-02', '2024-01-02 03:04:05.5', 2.5, '\\x0102', '{1,2}', '{a,NULL}'), (2, NULL, NULL, false, NULL, NULL, NULL, NULL, NULL, NULL)"].map { |s| c.exec(s).cmd_tuples }
end
check('all') { |c| c.exec('SELECT * FROM rb_rows ORDER BY id').values }
check('mapped') { |c| mapped(c).exec('SELECT id, name, amount, ok, d, ts, f, ia, ta FROM rb_rows ORDER BY id').values }
check('mapped in binary') { |c| mapped(c).exec_params('SELECT id, name, ok, f, raw, ts FROM rb_rows ORDER BY id', [], 1).values }
check('mapped parameters') { |c| mapped(c).exec_params('SELECT id FROM rb_rows WHERE id = $1 AND f = $2 AND ok = $3 AND name = $4 AND ia = $5', [1, 2.5, true, 'one', [1, 2]]).values }
check('regtype map') { |c| PG::BasicTypeRegistry.new.register_default_types; PG::BasicTypeRegistry::CoderMapsBundle.new(c).each_format(:decoder).size }
check('parameters') { |c| c.exec_params('SELECT id FROM rb_rows WHERE id = $1 AND name = $2 AND amount = $3', [1, 'one', '1.5']).values }
check('typed parameters') { |c| c.exec_params('SELECT $1, $2', [{ value: '5', type: 23 }, { value: 'x', type: 25 }]).values }
check('prepared') { |c| c.prepare('p', 'SELECT name FROM rb_rows WHERE id = $1'); [c.exec_prepared('p', [1]).values, c.describe_prepared('p').paramtype(0)] }
check('fields') { |c| r = c.exec('SELECT id, name, amount FROM rb_rows'); r.fields.each_index.map { |i| [r.fname(i), r.ftype(i), r.fmod(i), r.fsize(i), r.ftable(i).positive?, r.ftablecol(i)] } }
check('single rows') { |c| c.send_query('SELECT id FROM rb_rows ORDER BY id'); c.set_single_row_mode; c.get_result.stream_each.to_a }
check('pipeline') { |c| c.enter_pipeline_mode; c.send_query_params('SELECT id FROM rb_rows WHERE id = $1', [1]); c.pipeline_sync; r = c.get_result.values; c.get_result; c.get_result; c.exit_pipeline_mode; r }
check('transaction') { |c| c.transaction { |t| t.exec('SELECT id FROM rb_rows WHERE id = 1').values } }
check('failed transaction') { |c| begin; c.transaction { |t| t.exec('SELECT 1/0') }; rescue PG::DivisionByZero; end; [c.transaction_status, c.exec('SELECT true').values] }
check('copy in') { |c| n = c.copy_data('COPY rb_rows (id, name) FROM STDIN') { c.put_copy_data("5\tx\n"); c.put_copy_data("6\ty\n") }.cmd_tuples; [n, c.exec('DELETE FROM rb_rows WHERE id > 4').cmd_tuples] }
check('copy out') { |c| out = []; c.copy_data('COPY (SELECT id, name FROM rb_rows ORDER BY id) TO STDOUT CSV') { while (row = c.get_copy_data) do out << row end }; out }
check('copy in binary') { |c| c.copy_data('COPY rb_rows (id, name) FROM STDIN (FORMAT binary)', PG::BinaryEncoder::CopyRow.new) { c.put_copy_data([[9].pack('N'), 'bin']) }; c.exec('DELETE FROM rb_rows WHERE id = 9 RETURNING name').values }
check('wrong copy') { |c| c.copy_data('COPY rb_rows (id, name) FROM STDIN') { raise PG::Error if c.put_copy_data("x\ty\n").nil? } }
check('error') { |c| c.exec('SELECT id, nope FROM rb_rows') }
check('error fields') { |c| begin; c.exec('INSERT INTO rb_rows (id) VALUES (NULL)'); rescue PG::Error => e; [e.class, e.result.error_field(PG::PG_DIAG_COLUMN_NAME), e.result.error_field(PG::PG_DIAG_TABLE_NAME)]; end }
check('notices') { |c| seen = []; c.set_notice_receiver { |r| seen << r.error_field(PG::PG_DIAG_SEVERITY) }; c.exec('DROP TABLE IF EXISTS rb_missing'); seen }
check('listen') { |c| c.exec('LISTEN rb_channel'); c.exec("NOTIFY rb_channel, 'hello'"); got = nil; c.wait_for_notify(1) { |n, _, p| got = [n, p] }; got }
check('cancel') { |c| c.send_query('SELECT count(*) FROM generate_series(1, 1000000000) AS a(n) CROSS JOIN generate_series(1, 100000) AS b(m) WHERE n % 7 = 8'); sleep 0.3; c.cancel; begin; c.get_last_result; rescue PG::QueryCanceled => e; e.class; end }
check('encoding') { |c| c.set_client_encoding('UTF8'); [c.internal_encoding, c.exec("SELECT 'äé漢😀'").values] }
check('another encoding') { |c| c.set_client_encoding('LATIN1'); c.exec("SELECT 'x'").values }
check('sizes') { |c| [c.server_version / 10000, c.parameter_status('standard_conforming_strings'), c.protocol_version] }
check('drop') { |c| c.exec('DROP TABLE rb_rows').cmd_status }
