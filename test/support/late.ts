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
