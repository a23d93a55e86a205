/**
 * `node crds/generate.ts [--check] [FOLDER]` writes the CustomResourceDefinitions of all kinds, and the
 * admission policy, to crds/manifests or to FOLDER. They have the same schemas as the types and the
 * validation. With --check it writes nothing, prints the files that are not up to date, and exits with 1 if
 * there are any.
 */
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { definitionFiles } from './generation/definition-files.ts'
import { writeGenerated } from './generation/write-generated.ts'

const { values, positionals } = parseArgs({
  options: { check: { type: 'boolean', default: false } },
  allowPositionals: true,
})
const folder = positionals[0] ?? join(import.meta.dirname, 'manifests')

writeGenerated(definitionFiles(), { folder, check: values.check, program: 'crds/generate.ts' })
