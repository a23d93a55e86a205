import type { TimedList } from '../wire/message.ts'
import type { Rule } from './rule.ts'

/**
 * Each array of weights has one value for each blend shape of the header, and each array of translations,
 * rotations and scales has one for each of its joints. Messages before the first header are not checked.
 */
export function createCountsRule(): Rule {
  let names: { readonly blendShapes: number; readonly joints: number } | undefined

  return {
    judge(message) {
      if (message.part === 'header') names = message
      if (message.part !== 'data' || message.skelAnimation === undefined || names === undefined)
        return undefined
      const { weights, translations, rotations, scales } = message.skelAnimation
      return (
        difference('weights', weights, 'blend shapes', names.blendShapes) ??
        difference('translations', translations, 'joints', names.joints) ??
        difference('rotations', rotations, 'joints', names.joints) ??
        difference('scales', scales, 'joints', names.joints)
      )
    },
  }
}

function difference(
  list: string,
  arrays: TimedList | undefined,
  named: string,
  allowed: number,
): string | undefined {
  if (arrays === undefined) return undefined
  const { fewestValues, mostValues } = arrays
  if (fewestValues === allowed && mostValues === allowed) return undefined
  const found = fewestValues === allowed ? mostValues : fewestValues
  return `${found} ${list} are found, ${allowed} are allowed: the header names ${allowed} ${named}`
}
