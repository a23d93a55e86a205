/**
 * `node charts/generate.ts [--check]` writes the files of the chart that are generated from code: the custom
 * resource definitions, the permissions of the operator, the dashboard, and the schema of the values. With
 * --check it writes nothing, prints the files that are not up to date, and exits with 1 if there are any.
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

/** The placeholder that the chart replaces with the name of the installation. */
const installation = '$NAME'
const prefixNames = (names: readonly string[]) => names.map(name => `${installation}-${name}`)
/** Returns the names of the objects of a resource that the operator may update in its namespace. */
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

/** Formats JSON as biome does: a list that contains no list or map is on one line. */
function toText(json: JsonObject): string {
  const inLine = (_: string, items: string) => `[${items.replaceAll(/,\s+/g, ', ')}]`
  const expanded = JSON.stringify(json, undefined, 2)
  return `${expanded.replaceAll(/\[\s+([^[\]{}]*?)\s+\]/g, inLine)}\n`
}

const { values } = parseArgs({ options: { check: { type: 'boolean', default: false } } })
writeGenerated(files, { folder: chart, check: values.check, program: 'charts/generate.ts' })
