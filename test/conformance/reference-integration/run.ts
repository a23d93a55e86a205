import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { root } from '../../support/tollway.ts'
import { openReferenceTests } from './play.ts'

/**
 * Runs all of the reference's integration tests against the service and prints a table of the groups.
 *
 *     node test/conformance/reference-integration/run.ts [rounds] [pattern]
 *
 * The exit code is 1 when a test fails. Build first, with `build.ts`. The output of each round is kept in
 * out/reference-integration-ROUND.log.
 */
const [rounds = '1', pattern] = process.argv.slice(2)
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))
const tests = await openReferenceTests(temporaryFolder('reference-integration'))
const results = new Map<string, string[]>()
const failed = new Set<string>()
for (let round = 0; round < Number(rounds); round += 1) {
  const { verdicts, output } = await tests.play(pattern)
  writeFileSync(join(root, `out/reference-integration-${round + 1}.log`), output)
  for (const { name, result, seconds } of verdicts) {
    if (result === 'FAIL') failed.add(name)
    if (name.includes('/')) continue
    results.set(name, [...(results.get(name) ?? []), `${result} ${seconds.toFixed(1)} s`])
  }
  const failures = verdicts.filter(({ result }) => result === 'FAIL').length
  console.info(`round ${round + 1}: ${verdicts.length} tests, ${failures} failed`)
}
await tests.stop()
for (const [name, words] of results) console.info(`| ${name} | ${words.join(' | ')} |`)
for (const name of failed) console.info(`failed: ${name}`)
process.exit(failed.size > 0 || results.size === 0 ? 1 : 0)
