/** Paths of fields as error details name them. */

/** A JSON pointer as error details name fields: `/options/tags/0` → `options.tags[0]`. */
export function fieldOf(pointer: string): string {
  return pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce((path, part) => joinPath(path, part), '')
}

/** `joinPath('args', '0')` → `args[0]`. */
export function joinPath(path: string, part: string): string {
  if (/^\d+$/.test(part)) return `${path}[${part}]`
  return path === '' ? part : `${path}.${part}`
}
