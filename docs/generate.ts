/**
 * `node docs/generate.ts [--check] [FOLDER]` writes the pages that are made from the code to docs, or to
 * FOLDER. With --check it writes nothing, names the pages that are not up to date, and ends with 1 when there
 * are any.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { parseArgs } from 'node:util'
import { pages } from './pages.ts'

const { values, positionals } = parseArgs({
  options: { check: { type: 'boolean', default: false } },
  allowPositionals: true,
})
const folder = positionals[0] ?? import.meta.dirname

for (const { name, text } of pages()) {
  const path = join(folder, name)
  const shown = relative(process.cwd(), path)
  if (existsSync(path) && readFileSync(path, 'utf8') === text) continue
  if (values.check) {
    console.error(`${shown} is not what docs/generate.ts makes; run: make generate`)
    process.exitCode = 1
  } else {
    mkdirSync(folder, { recursive: true })
    writeFileSync(path, text)
    console.log(`wrote ${shown}`)
  }
}
