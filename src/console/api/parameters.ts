/** What a query is made of. */

/** The parameters of a query, without empty ones. Each value of a list is taken as it is, although it has a comma. */
export function parametersOf(given: Readonly<Record<string, unknown>>): [string, string][] {
  return Object.entries(given).flatMap(([name, value]): [string, string][] => {
    if (Array.isArray(value)) return value.map((each) => [`${name}[]`, String(each)])
    return value === undefined || value === '' ? [] : [[name, String(value)]]
  })
}
