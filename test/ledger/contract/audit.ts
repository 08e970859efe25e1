import { describe, expect, it } from 'vitest'
import type { AuditRecord } from '../../../src/ledger/audit.ts'
import { NOW, type UnderTest } from '../harness.ts'

const KEPT = 10_000

/** Who did what: the newest records, which outlive the process. */
export function auditContract({ harness, ledger }: UnderTest): void {
  const record = (status: number, key: string | null = 'ops'): AuditRecord => ({
    at: NOW + status,
    requestId: `req_${status}`,
    key,
    role: key && 'operator',
    address: key && '::1',
    method: 'POST',
    route: '/ojs/v1/admin/queues/:name/pause',
    path: '/ojs/v1/admin/queues/grün/pause?a=1',
    status,
  })
  const all = { before: null, limit: 100, key: null }
  const statuses = async (page: Partial<typeof all> | { before: number } | { key: string }) => {
    const { records, total } = await ledger.read.audit.list({ ...all, ...page })
    return [records.map(({ status }) => status), total]
  }

  describe('audit records', () => {
    it('are listed newest first, page by page, also after a restart', async () => {
      expect(await ledger.read.audit.list(all)).toEqual({ records: [], total: 0 })
      for (const status of [1, 2, 3]) await ledger.audit.append(record(status))
      await harness.reopen()
      await ledger.audit.append(record(4, null))
      const { records, total } = await ledger.read.audit.list({ ...all, limit: 2 })
      expect(total).toBe(4)
      expect(records.map(({ number: _number, ...rest }) => rest)).toEqual([
        record(4, null),
        record(3),
      ])
      expect(await statuses({ before: records[1]?.number ?? 0 })).toEqual([[2, 1], 4])
    })

    it('of one key', async () => {
      for (const [status, key] of [[1, 'a'] as const, [2, 'b'] as const, [3, 'a'] as const]) {
        await ledger.audit.append(record(status, key))
      }
      expect(await statuses({ key: 'a' })).toEqual([[3, 1], 2])
      const [newest] = (await ledger.read.audit.list({ ...all, key: 'a' })).records
      expect(await statuses({ key: 'a', before: newest?.number ?? 0 })).toEqual([[1], 2])
      expect(await statuses({ key: 'none' })).toEqual([[], 0])
    })

    it('are seen by a list that is asked for before their commit', async () => {
      const appended = ledger.audit.append(record(1))
      expect(await statuses({})).toEqual([[1], 1])
      await appended
    })

    it(`beyond ${KEPT} push the oldest out`, async () => {
      const numbers = Array.from({ length: KEPT + 3 }, (_, n) => n)
      await Promise.all(numbers.map((n) => ledger.audit.append(record(n))))
      expect(await statuses({ limit: 1 })).toEqual([[KEPT + 2], KEPT])
      const [oldest] = (await ledger.read.audit.list({ ...all, limit: KEPT + 3 })).records.slice(-1)
      expect(oldest?.status).toBe(3)
      await harness.reopen()
      await ledger.audit.append(record(99_999))
      expect(await statuses({ limit: 2 })).toEqual([[99_999, KEPT + 2], KEPT])
    })
  })
}
