/** `dependentRequired` that also misses a member named ''. */
import type { ErrorObject, FuncKeywordDefinition } from 'ajv/dist/2020.js'

interface Validate {
  (data: object): boolean
  errors?: Partial<ErrorObject>[]
}

/** Ajv's own `dependentRequired` recognises a missing member by its name and never misses `''`. */
export function dependentRequired(): FuncKeywordDefinition {
  const keyword = 'dependentRequired'
  return {
    keyword,
    type: 'object',
    schemaType: 'object',
    compile: (dependents: Readonly<Record<string, readonly string[]>>) => {
      const pairs = Object.entries(dependents)
      const validate: Validate = (data) => {
        const broken = pairs.find(
          ([name, others]) => Object.hasOwn(data, name) && lacks(data, others),
        )
        if (broken === undefined) return true
        validate.errors = [{ keyword, message: messageOf(...broken), params: {} }]
        return false
      }
      return validate
    },
  }
}

function lacks(data: object, names: readonly string[]): boolean {
  return names.some((name) => !Object.hasOwn(data, name))
}

function messageOf(name: string, others: readonly string[]): string {
  const properties = others.length === 1 ? 'property' : 'properties'
  return `must have ${properties} ${others.join(', ')} when property ${name} is present`
}
