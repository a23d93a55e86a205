/**
 * `node charts/generate.ts [--check]` writes what of the chart follows from the code: the definitions, what
 * the operator may do, the dashboard, and the schema of the values. With --check it writes nothing, names the
 * files that are not up to date, and ends with 1 when there are any.
 */
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { JsonObject } from '@tollway/chassis/json.ts'
import { definitionFiles } from '@tollway/crds/generation/definition-files.ts'
import { type GeneratedFile, writeGenerated } from '@tollway/crds/generation/write-generated.ts'
import {
  makeRules,
  ownSecretNames,
  permissions,
} from '@tollway/operator/environments/kubernetes/api/permissions.ts'
import { madePods } from '@tollway/operator/environments/kubernetes/workloads/made-pods.ts'
import { dump } from 'js-yaml'
import { dashboard } from './dashboard.ts'
import { valuesSchema } from './values-schema.ts'

const chart = join(import.meta.dirname, 'tollway')
const note = '# Made by charts/generate.ts from the code; run: make generate\n'

/** Stands in the rules where the chart puts the name of the installation. */
const installation = '$NAME'
const prefixNames = (names: readonly string[]) => names.map(name => `${installation}-${name}`)
/** The names of the objects of a resource that the operator creates and updates in its namespace. */
const updatedNames = (resource: string) =>
  permissions
    .filter(one => one.resource === resource && one.scope === 'own' && one.verbs.includes('update'))
    .flatMap(({ names = [] }) => names)
const permissionsText = dump(
  {
    ownSecrets: prefixNames(ownSecretNames),
    ownNames: prefixNames([...updatedNames('configmaps'), ...updatedNames('leases')]),
    pods: madePods(),
    own: makeRules('own', { installation }),
    watched: makeRules('watched'),
    granted: makeRules('granted'),
    cluster: makeRules('cluster'),
    grantedWithPayments: makeRules('granted', { only: 'payments' }),
  },
  { noRefs: true },
)
const files: readonly GeneratedFile[] = [
  ...definitionFiles().map(({ name, text }) => ({ name: join('files/crds', name), text })),
  { name: 'files/permissions.yaml', text: `${note}${permissionsText}` },
  { name: 'files/dashboard.json', text: toText(dashboard()) },
  { name: 'values.schema.json', text: toText(valuesSchema()) },
]

/** Formats as biome does: a list without lists or maps takes one line. */
function toText(json: JsonObject): string {
  const inLine = (_: string, items: string) => `[${items.replaceAll(/,\s+/g, ', ')}]`
  const expanded = JSON.stringify(json, undefined, 2)
  return `${expanded.replaceAll(/\[\s+([^[\]{}]*?)\s+\]/g, inLine)}\n`
}

const { values } = parseArgs({ options: { check: { type: 'boolean', default: false } } })
writeGenerated(files, { folder: chart, check: values.check, program: 'charts/generate.ts' })
