/** Reads variables by name and type, and secrets from the files that the environment names. */
import { readFileSync } from 'node:fs'
import { parseDuration } from '../job/values/duration.ts'
import { MAY_BE_IN_FILES, type Name, VARIABLES } from './variables.ts'

export type Environment = Readonly<Record<string, string | undefined>>

/** Functions that read a variable by name and type, and note an unusable value in `mistakes`. */
export function readers(env: Environment, mistakes: string[]) {
  const read = (name: Name) => env[name] || VARIABLES[name].fallback
  const int = (name: Name, min: number, max = 2 ** 31 - 1) => {
    // Stricter than `Number`, which reads a blank as 0 and accepts '1e3'.
    const value = /^-?\d+$/.test(read(name)) ? Number(read(name)) : Number.NaN
    if (value >= min && value <= max) return value
    // In Kubernetes, a Service named `ojs` puts `OJS_PORT=tcp://…` into the environment of every pod.
    const hint = /^tcp:\/\//.test(read(name))
      ? ' (in Kubernetes, set enableServiceLinks: false)'
      : ''
    mistakes.push(`${name} must be an integer from ${min} to ${max}, not '${read(name)}'${hint}`)
    return min
  }
  const oneOf = <T extends string>(name: Name, values: readonly T[]) => {
    const value = values.find((candidate) => candidate === read(name))
    if (value === undefined) {
      mistakes.push(`${name} must be one of ${values.join(', ')}, not '${read(name)}'`)
    }
    return value ?? (VARIABLES[name].fallback as T)
  }
  const duration = (name: Name) => {
    try {
      return parseDuration(read(name), name)
    } catch {
      mistakes.push(`${name} must be an ISO 8601 duration such as P7D, not '${read(name)}'`)
      return Number.NaN
    }
  }
  const retention = (name: Name) => {
    const ms = duration(name)
    // For other settings 0 means "no limit"; here it would delete every job as soon as it ends.
    if (ms === 0) mistakes.push(`${name} must be longer than 0: with 0, no job would be kept`)
    return ms
  }
  return { read, int, oneOf, duration, retention }
}

/** Returns the secrets that are in files, under the names of the variables that would hold them directly. */
export function secretsInFiles(env: Environment, mistakes: string[]): Environment {
  const secrets: Record<string, string> = {}
  for (const name of MAY_BE_IN_FILES) {
    const path = env[`${name}_FILE`]
    if (!path) continue
    if (env[name]) mistakes.push(`${name} and ${name}_FILE are both set; set only one of them`)
    else secrets[name] = secretIn(path, `${name}_FILE`, mistakes)
  }
  return secrets
}

function secretIn(path: string, name: string, mistakes: string[]): string {
  try {
    const text = readFileSync(path, 'utf8').trim()
    // An empty file is not the same as an unset variable: the gateway would run without API keys, open to
    // all, or would connect to the default broker.
    if (text === '') mistakes.push(`${name}: '${path}' is empty`)
    return text
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : error
    mistakes.push(`${name}: '${path}' cannot be read (${code})`)
    return ''
  }
}

/** What stands between commas. */
export function list(text: string): string[] {
  return text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '')
}
