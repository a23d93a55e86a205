/**
 * `node crds/generate.ts [--check] [FOLDER]` writes the CustomResourceDefinitions of all kinds to
 * crds/manifests, or to FOLDER, from the schemas that the types and the validation come from too. With
 * --check it writes nothing, names the files that are not up to date, and ends with 1 when there are any.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { parseArgs } from 'node:util'
import { definitionFiles } from './definition-files.ts'

const { values, positionals } = parseArgs({
  options: { check: { type: 'boolean', default: false } },
  allowPositionals: true,
})
const folder = positionals[0] ?? join(import.meta.dirname, 'manifests')

for (const { name, text } of definitionFiles()) {
  const path = join(folder, name)
  const shown = relative(process.cwd(), path)
  if (existsSync(path) && readFileSync(path, 'utf8') === text) continue
  if (values.check) {
    console.error(`${shown} is not what crds/generate.ts makes; run: make generate`)
    process.exitCode = 1
  } else {
    mkdirSync(folder, { recursive: true })
    writeFileSync(path, text)
    console.log(`wrote ${shown}`)
  }
}
