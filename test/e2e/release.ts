import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { isObject } from '@tollway/chassis/is-object.ts'
import { CORE_SCHEMA, load } from 'js-yaml'
import { root } from '../support/tollway.ts'
import { apply, eventually, helm, isReady, kubectl, type Pod, pods, restricted } from './cluster.ts'

/** The namespace of the release that all files of a run share. */
export const system = 'tollway-system'
/** The current chart. */
export const chart = join(root, 'charts/tollway')
export const untilReady = ['--wait', '--timeout', '240s']

const values = join(import.meta.dirname, 'values.yaml')
const valuesOfToday = join(import.meta.dirname, 'values-of-today.yaml')
/** The default suits name servers that keep an answer for 30 s, and is most of the time of a rollout. */
const drainDelay = process.env['E2E_DRAIN_DELAY']
const drained = ['rateLimit', 'broker'] as const
const drainSetters =
  drainDelay === undefined ? [] : drained.map(service => `${service}.env.DRAIN_DELAY=${drainDelay}`)

/**
 * Returns the options of helm for a release with values that the previous chart accepts, too, and with the
 * given ones, such as `broker.enabled=false`.
 */
export function commonOptions(...given: readonly string[]): readonly string[] {
  const setters = [...drainSetters, ...given].flatMap(value => ['--set', value])
  return ['-n', system, '-f', values, ...setters]
}

/** The same with all values of these tests. */
const releaseOptions = (...given: readonly string[]) => [...commonOptions(...given), '-f', valuesOfToday]

/** Makes the namespace of the release, and the database that its values name. */
export async function prepare(): Promise<void> {
  // An earlier file may have deleted a namespace. Objects that are applied before its end are deleted, too.
  for (const name of [system, 'databases']) {
    const deleted = [
      'get',
      'namespace',
      name,
      '--ignore-not-found',
      '-o',
      'jsonpath={.metadata.deletionTimestamp}',
    ]
    await eventually(`the end of ${name}`, async () => (await kubectl(...deleted)) === '')
  }
  await apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: system, labels: restricted } })
  await apply(readFileSync(join(import.meta.dirname, 'postgres.yaml'), 'utf8'))
  await kubectl('-n', 'databases', 'wait', '--for=condition=Ready', 'pod/postgres', '--timeout=180s')
}

/**
 * Installs the chart with the values of these tests, unless an earlier file has done so and has left the
 * release as it was. Resolves when everything is ready, with the milliseconds that the install took.
 */
export async function ensureInstalled(): Promise<number | undefined> {
  if (await isInstalled()) return undefined
  await prepare()
  const beginMs = performance.now()
  await helm('upgrade', '--install', 'tollway', chart, ...releaseOptions(), ...untilReady)
  return performance.now() - beginMs
}

async function isInstalled(): Promise<boolean> {
  const ofSystem = ['-n', system, '-o', 'json']
  const [release] = JSON.parse(await helm('list', '--filter', '^tollway$', ...ofSystem)) as Listed[]
  if (release?.status !== 'deployed' || !release.chart.endsWith(chartVersion())) return false
  return isDeepStrictEqual(JSON.parse(await helm('get', 'values', 'tollway', ...ofSystem)), wantedValues())
}

interface Listed {
  readonly status: string
  readonly chart: string
}

function chartVersion(): string {
  const text = readFileSync(join(chart, 'Chart.yaml'), 'utf8')
  return `-${(load(text, { schema: CORE_SCHEMA }) as { readonly version: string }).version}`
}

function wantedValues(): unknown {
  const [common, ofToday] = [values, valuesOfToday].map(
    file => load(readFileSync(file, 'utf8'), { schema: CORE_SCHEMA }) as Values,
  )
  const env = { DRAIN_DELAY: drainDelay }
  const drain = drainDelay === undefined ? {} : Object.fromEntries(drained.map(name => [name, { env }]))
  return merged(merged(common ?? {}, ofToday ?? {}), drain)
}

type Values = Readonly<Record<string, unknown>>

/** Merges values by the rules of helm. */
function merged(below: Values, above: Values): Values {
  const entries = Object.entries(above).map(([name, value]) => {
    const covered = below[name]
    return [name, isObject(value) && isObject(covered) ? merged(covered, value) : value]
  })
  return { ...below, ...Object.fromEntries(entries) }
}

/** Installs the chart; only its hook waits. */
export async function installWithoutWaiting(...given: readonly string[]): Promise<void> {
  await helm('install', 'tollway', chart, ...releaseOptions(...given))
}

/** Upgrades the release to the values of these tests and the given ones. Resolves when all is ready. */
export async function upgrade(...given: readonly string[]): Promise<void> {
  await helm('upgrade', 'tollway', chart, ...releaseOptions(...given), ...untilReady)
}

/** The same as `upgrade`, but only the hook of the chart waits. */
export async function upgradeWithoutWaiting(...given: readonly string[]): Promise<void> {
  await helm('upgrade', 'tollway', chart, ...releaseOptions(...given))
}

/** The kinds of objects that a release may have in its namespace. */
const kindsOfRelease =
  'deployments,services,serviceaccounts,secrets,poddisruptionbudgets,networkpolicies,jobs,leases'

/**
 * Uninstalls the release. Nothing that the operator created is left when helm returns; the namespace is as
 * empty as a new one when this resolves.
 */
export async function uninstall(): Promise<void> {
  await kubectl('-n', system, 'delete', 'secret', 'payments-database')
  await helm('uninstall', 'tollway', '-n', system, '--wait', '--timeout', '180s')
  const created = ['-l', 'app.kubernetes.io/managed-by=tollway', '-o', 'name']
  assert.equal(await kubectl('-n', system, 'get', 'deployments,pods,services', ...created), '')
  await eventually('nothing to be left', async () => {
    const left = await kubectl('-n', system, 'get', kindsOfRelease, '-o', 'name')
    const ofRelease = left.split('\n').filter(name => name !== '' && name !== 'serviceaccount/default')
    if (ofRelease.length > 0) throw new Error(`there are ${ofRelease.join(', ')}`)
    return true
  })
}

/** The ready pods of the release with these labels. */
export async function readyPods(selector: string): Promise<readonly Pod[]> {
  return (await pods(system, selector)).filter(isReady)
}
