import { isObject } from '@tollway/chassis/is-object.ts'

/**
 * Returns whether the live object contains all wanted content. Other live content is ignored, because the API
 * server fills in defaults, and other writers may add labels, containers and variables. Where an addition
 * would change the meaning (a selector, the rules of a policy), both values must be equal. As in server-side
 * apply, lists in `listKeys` are compared item by item, other lists as one value.
 */
export function isSuperset(live: unknown, wanted: unknown): boolean {
  return contains(live, wanted, '')
}

/**
 * The fields that identify the items of a list. Of several alternatives, the first one that a wanted item has
 * is used.
 */
const listKeys: Readonly<Record<string, readonly (readonly string[])[]>> = {
  containers: [['name']],
  env: [['name']],
  imagePullSecrets: [['name']],
  ownerReferences: [['uid']],
  ports: [
    ['containerPort', 'protocol'],
    ['port', 'protocol'],
  ],
  topologySpreadConstraints: [['topologyKey', 'whenUnsatisfiable']],
  volumeMounts: [['mountPath']],
  volumes: [['name']],
}

/** The maps that are compared as one value, so that an additional entry is a difference. */
const atomicMaps: ReadonlySet<string> = new Set(['labelSelector', 'nodeSelector', 'podSelector', 'selector'])

/**
 * The fields with quantities, either directly or as the values of a map. The API server rewrites quantities
 * in a canonical form.
 */
const quantityFields: ReadonlySet<string> = new Set(['limits', 'requests', 'sizeLimit'])

/** @param field the name of the field that has both values; it decides how they are compared */
function contains(live: unknown, wanted: unknown, field: string): boolean {
  if (isEmpty(wanted) && isEmpty(live)) return true
  if (quantityFields.has(field)) return containsQuantities(live, wanted)
  if (Array.isArray(wanted)) return containsList(live, wanted, field)
  if (!isObject(wanted)) return live === wanted
  if (atomicMaps.has(field)) return isSame(live, wanted)
  const found = isObject(live) ? live : {}
  return Object.entries(wanted).every(([name, value]) => contains(found[name], value, name))
}

/** Returns whether the API server omits such a value when it stores an object. */
function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null || value === '') return true
  return Array.isArray(value) ? value.length === 0 : isObject(value) && Object.keys(value).length === 0
}

function containsQuantities(live: unknown, wanted: unknown): boolean {
  if (!isObject(wanted)) return sameQuantity(live, wanted)
  return isObject(live) && Object.entries(wanted).every(([name, value]) => sameQuantity(live[name], value))
}

function containsList(live: unknown, wanted: readonly unknown[], field: string): boolean {
  const alternatives = listKeys[field]
  if (alternatives === undefined) return isSame(live, wanted)
  if (!Array.isArray(live)) return wanted.length === 0
  return wanted.every(item => {
    const keys = alternatives.find(names => isObject(item) && names.every(name => item[name] !== undefined))
    return keys === undefined ? isSame(live, wanted) : contains(itemLike(live, item, keys), item, '')
  })
}

function itemLike(live: readonly unknown[], wanted: unknown, keys: readonly string[]): unknown {
  const isLike = (item: unknown) =>
    isObject(item) && isObject(wanted) && keys.every(name => item[name] === wanted[name])
  return live.find(isLike)
}

/** Returns whether both values are equal in every field. The order of the fields does not matter. */
function isSame(live: unknown, wanted: unknown): boolean {
  if (Array.isArray(wanted)) {
    if (!Array.isArray(live) || live.length !== wanted.length) return false
    return wanted.every((item, index) => isSame(live[index], item))
  }
  if (!isObject(wanted)) return live === wanted
  if (!isObject(live)) return false
  const names = new Set([...Object.keys(live), ...Object.keys(wanted)])
  return Array.from(names).every(name => isSame(live[name], wanted[name]))
}

const suffixes: Readonly<Record<string, number>> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  '': 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
}

/**
 * Returns whether two Kubernetes quantities are equal, for example `0.5` and `500m`, or `1024Mi` and `1Gi`. A
 * text that is not a quantity is equal only to itself.
 */
function sameQuantity(a: unknown, b: unknown): boolean {
  if (a === b) return true
  const [left, right] = [toNumber(a), toNumber(b)]
  // The tolerance covers the rounding of binary fractions.
  return Math.abs(left - right) <= Math.max(Math.abs(left), Math.abs(right)) * 1e-12
}

function toNumber(value: unknown): number {
  if (typeof value === 'number') return value
  if (typeof value !== 'string') return Number.NaN
  const [, digits = '', suffix = ''] =
    /^([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([numkMGTPE]i?|Ki|)$/.exec(value) ?? []
  return digits === '' ? Number.NaN : Number(digits) * (suffixes[suffix] ?? Number.NaN)
}
