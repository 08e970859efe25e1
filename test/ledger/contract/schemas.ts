import { describe, expect, it } from 'vitest'
import type { SchemaRecord } from '../../../src/ledger/schemas.ts'
import { NOW, type UnderTest } from '../harness.ts'

const MAX = 3

function schema(uri: string, over: Partial<SchemaRecord> = {}): SchemaRecord {
  return { uri, type: 'email.send', version: 1, content: '{"é":[1]}', createdAt: NOW, ...over }
}

/** Registered JSON Schemas. */
export function schemaContract({ harness, ledger }: UnderTest): void {
  const insert = (one: SchemaRecord) => ledger.schemas.insert(one, MAX)
  const uris = async (limit: number, offset: number) =>
    (await ledger.read.schemas.list(limit, offset)).schemas.map(({ uri }) => uri)

  describe('schemas', () => {
    it('are stored as they were registered, also after a restart', async () => {
      const one = schema('urn:a', { version: 2 ** 53 - 1 })
      expect(await insert(one)).toEqual({ outcome: 'inserted' })
      expect(await ledger.read.schemas.find('urn:a')).toEqual(one)
      expect(await ledger.read.schemas.find('urn:A')).toBeNull()
      const registration = ledger.known.schemas.registration('urn:a')
      await harness.reopen()
      expect(await ledger.read.schemas.find('urn:a')).toEqual(one)
      expect(ledger.known.schemas.registration('urn:a')).toBe(registration)
    })

    it('are refused when their uri is taken, also by one that is registered at the same time', async () => {
      const [first, second] = [schema('urn:a'), schema('urn:a', { version: 2 })]
      expect(await Promise.all([insert(first), insert(second)])).toEqual([
        { outcome: 'inserted' },
        { outcome: 'taken', existing: first },
      ])
      expect(await ledger.read.schemas.find('urn:a')).toEqual(first)
    })

    it('are remembered with the idempotency key of their request, and stored once', async () => {
      const request = { key: 's', fingerprint: 'f' }
      const store = () => ledger.schemas.insert(schema('urn:a'), MAX, request)
      expect(await store()).toEqual({ outcome: 'inserted' })
      const remembered = { fingerprint: 'f', ids: ['urn:a'], existing: [] }
      expect(await ledger.read.idempotency.find('s', NOW)).toEqual(remembered)
      expect(await store()).toEqual({ outcome: 'remembered', remembered })
      const other = { key: 'other', fingerprint: 'f' }
      expect(await ledger.schemas.insert(schema('urn:a'), MAX, other)).toMatchObject({
        outcome: 'taken',
      })
      expect(await ledger.read.idempotency.find('other', NOW)).toBeNull()
    })

    it('keep a version that is a text as it was sent', async () => {
      const one = schema('urn:a', { version: '1.0' })
      await insert(one)
      expect(await ledger.read.schemas.find('urn:a')).toEqual(one)
      expect((await ledger.read.schemas.list(9, 0)).schemas[0]?.version).toBe('1.0')
    })

    it('are found by their registration', async () => {
      await insert(schema('urn:a', { content: '{"a":1}' }))
      const registration = ledger.known.schemas.registration('urn:a') ?? 0
      expect(await ledger.read.schemas.content(registration)).toBe('{"a":1}')
      await ledger.schemas.delete('urn:a')
      expect(await ledger.read.schemas.content(registration)).toBeNull()
    })

    it('are refused beyond the limit, also when several are registered at the same time', async () => {
      const outcomes = await Promise.all(['a', 'b', 'c', 'd'].map((uri) => insert(schema(uri))))
      expect(outcomes.map(({ outcome }) => outcome)).toEqual([
        ...['inserted', 'inserted', 'inserted', 'full'],
      ])
      expect(await insert(schema('a'))).toMatchObject({ outcome: 'taken' })
      await ledger.schemas.delete('b')
      expect(await insert(schema('d'))).toEqual({ outcome: 'inserted' })
    })

    it('are listed oldest first, without their content', async () => {
      for (const uri of ['c', 'a', 'b']) await insert(schema(uri))
      const { content: _, ...summary } = schema('c')
      expect(await ledger.read.schemas.list(1, 0)).toEqual({ schemas: [summary], total: 3 })
      expect(await uris(2, 1)).toEqual(['a', 'b'])
      expect(await uris(9, 3)).toEqual([])
    })

    it('are gone once deleted, and a later one of the same uri has a registration number of its own', async () => {
      await insert(schema('a'))
      await insert(schema('b'))
      const before = ledger.known.schemas.registration('b')
      expect(await ledger.schemas.delete('b')).toBe(true)
      expect(await ledger.schemas.delete('b')).toBe(false)
      expect(await ledger.read.schemas.find('b')).toBeNull()
      expect(ledger.known.schemas.registration('b')).toBeNull()
      expect(await uris(9, 0)).toEqual(['a'])
      await harness.reopen()
      await insert(schema('b', { version: 2 }))
      expect(ledger.known.schemas.registration('b')).not.toBe(before)
      expect((await ledger.read.schemas.find('b'))?.version).toBe(2)
    })
  })
}
