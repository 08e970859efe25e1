import { afterAll, beforeAll } from 'vitest'

/**
 * Stands for an object that a hook makes before each test, or that a test replaces: every member is read from
 * what `current` returns at that time. So a fixture can be handed out before the hook has run.
 */
export function late<T extends object>(current: () => T): T {
  return new Proxy({} as T, {
    get: (_, name) => {
      const target = current()
      const member: unknown = Reflect.get(target, name)
      return typeof member === 'function' ? member.bind(target) : member
    },
  })
}

/**
 * Opens something for all tests of the file or `describe` that calls this, and closes it after them. What
 * later calls opened is closed before it.
 */
export function forAll<T extends object>(open: () => Promise<T>, close: (opened: T) => unknown): T {
  let opened: T | undefined
  beforeAll(async () => {
    opened = await open()
  })
  afterAll(async () => {
    if (opened) await close(opened)
  })
  return late(() => {
    if (!opened) throw new Error('used before its hook has run')
    return opened
  })
}
