import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { dump } from 'js-yaml'

/**
 * Registers a test for each `<case>.in.yaml` of the folder: the result for its text must equal
 * `<case>.out.yaml`. With GOLDEN=write the outputs are written instead, and those without an input are
 * removed.
 */
export function goldenTests(folder: string, make: (text: string) => unknown): void {
  const names = readdirSync(folder)
  const cases = names.filter(name => name.endsWith('.in.yaml')).map(name => name.slice(0, -'.in.yaml'.length))
  const orphans = names.filter(
    name => name.endsWith('.out.yaml') && !cases.includes(name.slice(0, -'.out.yaml'.length)),
  )
  const write = process.env['GOLDEN'] === 'write'
  for (const name of cases) {
    test(name, () => {
      const out = join(folder, `${name}.out.yaml`)
      const made = dump(make(readFileSync(join(folder, `${name}.in.yaml`), 'utf8')), {
        lineWidth: 110,
        noRefs: true,
      })
      if (write) writeFileSync(out, made)
      assert.ok(existsSync(out), `${out} is missing; make golden writes it`)
      assert.equal(made, readFileSync(out, 'utf8'), `${out} differs; make golden rewrites it`)
    })
  }
  test('each case has an input and an output', () => {
    assert.notEqual(cases.length, 0)
    if (write) for (const name of orphans) rmSync(join(folder, name))
    else assert.deepEqual(orphans, [])
  })
}
