import { isObject } from '@tollway/chassis/is-object.ts'
import { isSensitive, redactText, removed } from './redact-text.ts'

/** Numbers, durations, sizes and switches. */
const plainValue = /^(?:true|false|-?\d{1,10}(?:\.\d{1,3})?(?:ms|s|m|h|Ki|Mi|Gi)?)$/
const ownAnnotation = /^(?:tollway\.dev|meta\.helm\.sh|deployment\.kubernetes\.io)\//

/**
 * Returns an object of Kubernetes, or a configuration, without secrets. Environment variables keep their
 * values only if these are numbers, durations, sizes or switches. Annotations of other programs, and entries
 * of ConfigMaps and Secrets, keep their names only.
 */
export function redactObject(value: unknown, known: readonly string[] = []): unknown {
  if (typeof value === 'string') return redactText(value, known)
  if (Array.isArray(value)) return value.map(each => redactObject(each, known))
  if (!isObject(value)) return value
  const entries = Object.entries(value).flatMap(([name, inner]): [string, unknown][] => {
    if (name === 'managedFields') return []
    if (name === 'annotations' && isObject(inner)) return [[name, redactAnnotations(inner, known)]]
    if (namesOnly.includes(name) && isObject(inner)) return [[name, mapValues(inner, () => removed)]]
    if ((name === 'env' || name.endsWith('Env')) && isObject(inner))
      return [[name, mapValues(inner, (each, variable) => valueOfVariable(variable, each))]]
    if (name === 'env' && Array.isArray(inner)) return [[name, inner.map(redactVariable)]]
    if (isSensitive(name) && (typeof inner === 'string' || typeof inner === 'number'))
      return [[name, removed]]
    return [[name, redactObject(inner, known)]]
  })
  return Object.fromEntries(entries)
}

/** The fields of ConfigMaps and Secrets of which a bundle has only the names. */
const namesOnly = ['data', 'stringData', 'binaryData']

function redactAnnotations(annotations: Readonly<Record<string, unknown>>, known: readonly string[]) {
  return mapValues(annotations, (value, name) =>
    ownAnnotation.test(name) && !isSensitive(name) ? redactObject(value, known) : removed,
  )
}

/** An entry of the list of a container. */
function redactVariable(variable: unknown): unknown {
  if (!isObject(variable)) return removed
  const { name, value, valueFrom } = variable
  if (value === undefined) return { name, ...(valueFrom !== undefined && { valueFrom }) }
  return { name, value: valueOfVariable(`${name}`, value) }
}

function valueOfVariable(name: string, value: unknown): unknown {
  return !isSensitive(name) && plainValue.test(`${value}`) ? value : removed
}

function mapValues(
  object: Readonly<Record<string, unknown>>,
  change: (value: unknown, name: string) => unknown,
): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).map(([name, value]) => [name, change(value, name)]))
}
