/** What both ledgers keep, under which names: the tables in the order in which they are copied. */

interface ColumnNames {
  /** PostgreSQL's. */
  name: string
  /** SQLite's name, if it is another. */
  sqlite?: string
  /** A truth value, which is 0 or 1 in SQLite. */
  isFlag?: true
  /** SQLite has it in another form: how it is read (of the row `t`), and which columns are written, from `?1`. */
  form?: { read: string; write: Readonly<Record<string, string>> }
}

/** What is apart in PostgreSQL, under the same key. */
interface Side {
  table: string
  columns: readonly string[]
  /** A row is there only if these columns have values. */
  isOptional?: true
}

export interface Table {
  /** PostgreSQL's. */
  name: string
  /** SQLite's, if it is another. */
  sqlite?: string
  columns: readonly ColumnNames[]
  sides?: readonly Side[]
  /** Tells a row from all others; the rows are read in its order. None of its columns is null. */
  key: readonly string[]
  /** A column that PostgreSQL counts by itself. */
  sequence?: string
}

/** `name`, `flag?` for a truth value, `name=sqlite's` where the names differ. */
function columns(...texts: string[]): ColumnNames[] {
  return texts
    .flatMap((text) => text.split(' '))
    .map((text) => {
      const [, name = '', flag, sqlite] = /^(\w+)(\?)?(?:=(\w+))?$/.exec(text) ?? []
      return { name, ...(sqlite && { sqlite }), ...(flag && { isFlag: true as const }) }
    })
}

export const TABLES: readonly Table[] = [
  {
    name: 'jobs',
    columns: columns(
      'seq id generation state attempt queue type priority max_attempts visibility_timeout_ms',
      'timeout_ms outbox message_out?=token_out holder worker_id lease_ms lease_expires_at',
      'timeout_at due_at retry_queue_ms=rung_ms retry_delay_ms expires_at created_at enqueued_at',
      'activated_at started_at completed_at cancelled_at discarded_at is_dead_letter?=dead_letter',
      'dead_letter_copied? ended_at extended_ms history cron_entry unique_key concurrency_key',
      'carry error errors result envelope',
    ),
    sides: [{ table: 'job_bodies', columns: ['carry', 'error', 'errors', 'result', 'envelope'] }],
    key: ['id'],
    sequence: 'seq',
  },
  {
    name: 'queues',
    columns: columns(
      'seq name created_at has_stale_copies?=stale_copies paused_at pause_owed? identity=marker',
      'lost_at idle_since draining_at configuration',
    ),
    key: ['name'],
    sequence: 'seq',
  },
  {
    name: 'retry_queues',
    sqlite: 'rungs',
    columns: columns('queue delay_ms'),
    key: ['queue', 'delay_ms'],
  },
  { name: 'unwritten_queues', columns: columns('name'), key: ['name'] },
  {
    name: 'tombstones',
    columns: columns('seq id queue cancelled_at is_scoped?'),
    key: ['id'],
    sequence: 'seq',
  },
  {
    name: 'schemas',
    columns: columns('registration uri type version version_text content created_at'),
    key: ['registration'],
  },
  {
    name: 'cron_jobs',
    columns: columns(
      'seq name next_run_at last_run_at last_job_id run_count queued is_enabled?=enabled expression',
      'timezone overlap created_at description template',
    ),
    sides: [{ table: 'cron_templates', columns: ['template'] }],
    key: ['name'],
  },
  {
    name: 'cron_runs',
    columns: columns(
      'seq entry scheduled_at is_manual?=manual job_id reason state started_at ended_at',
    ),
    key: ['seq'],
    sequence: 'seq',
  },
  {
    name: 'workflows',
    columns: [
      ...columns('seq id type state total open completed failed created_at ended_at name settings'),
      {
        name: 'nodes',
        form: {
          read: '(SELECT count(*) FROM workflow_steps s WHERE s.workflow = t.seq)',
          write: {},
        },
      },
    ],
    key: ['id'],
    sequence: 'seq',
  },
  {
    name: 'workflow_steps',
    columns: [
      {
        name: 'key',
        form: {
          read: `(SELECT w.id FROM workflows w WHERE w.seq = t.workflow) || '/' || printf('%07d', t.node)`,
          write: {
            workflow: '(SELECT seq FROM workflows WHERE id = substr(?1, 1, length(?1) - 8))',
            node: 'CAST(substr(?1, -7) AS INTEGER)',
          },
        },
      },
      ...columns(
        'progress rule pending completed failed cancelled is_callback? type step_id=id job_id',
        'job_state started_at attempt ended_at feeds depends_on inputs request error',
      ),
    ],
    sides: [
      { table: 'workflow_feeds', columns: ['feeds'] },
      {
        table: 'workflow_sources',
        columns: ['depends_on', 'inputs', 'request'],
        isOptional: true,
      },
      { table: 'workflow_errors', columns: ['error'], isOptional: true },
    ],
    key: ['key'],
  },
  {
    name: 'idempotency_keys',
    columns: columns('seq key fingerprint ids=jobs existing created_at'),
    key: ['key'],
    sequence: 'seq',
  },
  {
    name: 'kept_keys',
    columns: columns('key state job_id created_at until'),
    key: ['key', 'state'],
  },
  {
    name: 'progress',
    columns: columns('job_id generation attempt progress data message updated_at told_at'),
    key: ['job_id'],
  },
  {
    name: 'result_ends',
    columns: [
      {
        name: 'job_id',
        form: {
          read: '(SELECT id FROM jobs WHERE seq = t.job)',
          write: { job: '(SELECT seq FROM jobs WHERE id = ?1)' },
        },
      },
      ...columns('ends_at completed_at'),
    ],
    key: ['job_id'],
  },
  {
    name: 'checkpoints',
    columns: columns('job_id state sequence created_at'),
    key: ['job_id'],
  },
  {
    name: 'bulk_operations',
    columns: columns(
      'seq id state created_at updated_at ended_at place_at place_row matched succeeded failed',
      'has_more? refused terms',
    ),
    key: ['id'],
    sequence: 'seq',
  },
  {
    name: 'maintenance',
    columns: columns('started_at ends_at reason'),
    key: ['started_at'],
  },
  {
    name: 'audit',
    columns: columns('number at request_id key role address method route path status'),
    key: ['number'],
  },
  {
    name: 'traffic',
    columns: columns(
      'span_ms at queue enqueued completed failed retried timed duration_ms waited wait_ms',
      'durations waits',
    ),
    key: ['span_ms', 'at', 'queue'],
  },
]

/** When the ledger was used last, and by which RabbitMQ. */
export const KEPT_SETTINGS: readonly string[] = ['epoch', 'epoch_before', 'seen_at']
