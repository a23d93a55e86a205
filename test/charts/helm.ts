import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { isObject } from '@tollway/chassis/is-object.ts'
import { CORE_SCHEMA, load, loadAll } from 'js-yaml'
import type { KubeObject } from '../../operator/environments/kubernetes/api/kube-object.ts'
import { findProgram } from '../support/require-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { root } from '../support/tollway.ts'

export const chart = join(root, 'charts/tollway')
export const release = 'tollway'
export const namespace = 'tollway-system'

/** The program of the PATH, or the one beside the API server that tests use. */
const program = findProgram('helm') ?? join(process.env['KUBE_ASSETS'] ?? '', 'helm')

/**
 * Why tests of the chart are to be skipped; false when helm is there. REQUIRE_SERVERS=1 does not ask for it:
 * no package of a distribution brings it.
 */
export function missingHelm(): string | false {
  if (existsSync(program)) return false
  const reason = 'there is no helm, neither on the PATH nor in KUBE_ASSETS'
  process.stderr.write(`SKIPPED: ${reason}\n`)
  return reason
}

/** This home has neither plugins nor a cluster of the user. */
const home = temporaryFolder('helm-home')

/** Resolves with the output of helm; rejects with its error. */
export function helm(args: readonly string[], input = ''): string {
  const env = { PATH: process.env['PATH'], HOME: home }
  const { status, stdout, stderr, error } = spawnSync(program, [...args], { input, encoding: 'utf8', env })
  if (status !== 0) throw new Error(stderr || error?.message || stdout)
  return stdout
}

export interface RenderedObject extends KubeObject {
  readonly apiVersion: string
  readonly kind: string
}

export interface Rendering {
  /** The folder of the chart. */
  readonly from?: string
  /** The release's name. */
  readonly name?: string
  /** Values as YAML. */
  readonly values?: string
  /** Values as `--set` takes them. */
  readonly set?: readonly string[]
}

/** All objects, those of hooks and tests too, as they would be sent to an API server. */
export function render({
  from = chart,
  name = release,
  values = '',
  set = [],
}: Rendering): readonly RenderedObject[] {
  const options = ['--namespace', namespace, '--values', '-', ...set.flatMap(one => ['--set', one])]
  const text = helm(['template', name, from, ...options], values)
  return loadAll(text, { schema: CORE_SCHEMA }).filter(isRendered)
}

/** An empty document does not count. */
function isRendered(found: unknown): found is RenderedObject {
  return isObject(found) && typeof found['kind'] === 'string' && isObject(found['metadata'])
}

/** The one object of this kind and name. */
export function find(objects: readonly RenderedObject[], kind: string, name: string): RenderedObject {
  const found = objects.filter(object => object.kind === kind && object.metadata.name === name)
  const [object] = found
  if (object !== undefined && found.length === 1) return object
  throw new Error(`${found.length} objects are ${kind} ${name}`)
}

/** Returns the configuration of the operator in the objects. */
export function configOf(objects: readonly RenderedObject[], name = release): unknown {
  const { data } = find(objects, 'ConfigMap', `${name}-operator`)
  return load(isObject(data) ? `${data['operator.yaml']}` : '', { schema: CORE_SCHEMA })
}
