/**
 * `node docs/generate.ts [--check] [FOLDER]` writes the pages that are made from the code to docs/reference,
 * or to FOLDER. With --check it writes nothing, names the pages that are not up to date, and ends with 1 when
 * there are any.
 */
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { writeGenerated } from '@tollway/crds/generation/write-generated.ts'
import { pages } from './generator/pages.ts'

const { values, positionals } = parseArgs({
  options: { check: { type: 'boolean', default: false } },
  allowPositionals: true,
})
const folder = positionals[0] ?? join(import.meta.dirname, 'reference')

writeGenerated(pages(), { folder, check: values.check, program: 'docs/generate.ts' })
