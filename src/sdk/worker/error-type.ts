/** What kind of error was thrown, for the `type` of a report. */

/**
 * The `name` that a thrown object was given; else the name of its class; else `Error`. `class AuthError extends
 * Error {}` inherits the name `Error`, and means `AuthError`. Throws what a getter of the object throws.
 */
export function errorType(thrown: object): string {
  const name = text(Reflect.get(thrown, 'name'))
  const ofClass = text(classOf(thrown))
  const [first, second] = isInherited(thrown, name) ? [ofClass, name] : [name, ofClass]
  return first ?? second ?? 'Error'
}

/** True for the name that a class further up has for its errors, and so for those of the classes below. */
function isInherited(thrown: object, name: string | undefined): boolean {
  let holder: object | null = thrown
  while (holder !== null && !Object.hasOwn(holder, 'name')) holder = Object.getPrototypeOf(holder)
  return holder !== null && holder !== thrown && classOf(holder) === name
}

function classOf(thrown: object): unknown {
  const made: unknown = Reflect.get(thrown, 'constructor')
  return typeof made === 'function' ? made.name : undefined
}

/** A text that says something, or undefined. */
export function text(value: unknown): string | undefined {
  return typeof value === 'string' && value.trim() !== '' ? value : undefined
}
