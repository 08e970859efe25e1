// Holds a ledger and writes to it for ever; prints each state that the ledger has acknowledged.
// node writer.mjs <module of openSqliteLedger> <ledger> [uid]
const [module, path, uid] = process.argv.slice(2)
const { openSqliteLedger } = await import(module)
// Not before the import, because this repository may be in a folder that only root can read.
if (uid) process.setuid(Number(uid))
const logger = { debug() {}, info() {}, warn() {}, error() {} }
const ledger = await openSqliteLedger({ path, sync: 'full', logger })
process.stdout.write('open\n')

let next = 0
async function work() {
  for (;;) {
    const id = `job-${next++}`
    const job = {
      ...{ id, type: 'email.send', queue: 'q', priority: 0, maxAttempts: 3 },
      ...{ visibilityTimeoutMs: null, timeoutMs: 0, expiresAt: null, createdAt: 1 },
      ...{ envelope: '{}', carry: null, start: { state: 'available' }, unique: null },
    }
    const { outbox } = await ledger.insert(job, 1)
    process.stdout.write(`available ${id}\n`)
    ledger.confirmed(outbox)
    const jobMessage = { id, generation: 0, attempt: 1, isHeldDelivery: false, adopt: () => job }
    const terms = { now: 1, wall: 1, workerId: 'w', leaseMs: null, defaultLeaseMs: 1000 }
    await ledger.claim([jobMessage], terms)
    process.stdout.write(`active ${id}\n`)
    if (next % 2 === 0) continue
    await ledger.complete(id, { attempt: 1 }, { now: 2, result: '1' })
    process.stdout.write(`completed ${id}\n`)
  }
}
await Promise.all(Array.from({ length: 8 }, work))
