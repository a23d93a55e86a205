/**
 * Writes the CustomResourceDefinitions of all kinds to manifests/, from the schemas that the types and the validation
 * come from too. With --check it writes nothing, and ends with 1 after naming the files that are not up to date.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { parseArgs } from 'node:util'
import { definitionFiles } from './definition-files.ts'

const folder = join(import.meta.dirname, 'manifests')
const { values } = parseArgs({ options: { check: { type: 'boolean', default: false } } })

for (const { name, text } of definitionFiles()) {
  const path = join(folder, name)
  const shown = relative(process.cwd(), path)
  if (read(path) === text) continue
  if (values.check) {
    console.error(`${shown} is not what crds/generate.ts makes: run make generate`)
    process.exitCode = 1
  } else {
    mkdirSync(folder, { recursive: true })
    writeFileSync(path, text)
    console.log(`wrote ${shown}`)
  }
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
