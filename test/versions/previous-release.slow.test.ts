import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { root } from '../support/tollway.ts'
import { missingPreviousRelease, previousChart, previousRelease } from './previous-release.ts'

const git = (...args: string[]) => execFileSync('git', args, { cwd: root, encoding: 'utf8' })
const { commit, version } = previousRelease

describe('the previous release', { skip: missingPreviousRelease() }, () => {
  it('is the commit of its tag, in a copy of the repository with tags', t => {
    if (git('tag', '--list', `v${version}`) === '') return t.skip(`there is no tag v${version}`)
    assert.equal(git('rev-parse', `v${version}^{commit}`).trim(), commit)
  })

  it('has the stored chart', () => {
    const chart = previousChart()
    const files = readdirSync(chart, { recursive: true, withFileTypes: true }).filter(file => file.isFile())
    const stored = files.map(({ parentPath, name }) => join(parentPath, name).slice(chart.length + 1))
    const tree = git('ls-tree', '-r', '--name-only', `${commit}:charts/tollway`)
    assert.deepEqual(stored.toSorted(), tree.trim().split('\n').toSorted())
    for (const file of stored) {
      const released = git('show', `${commit}:charts/tollway/${file}`)
      assert.equal(readFileSync(join(chart, file), 'utf8'), released, file)
    }
    assert.match(readFileSync(join(chart, 'Chart.yaml'), 'utf8'), new RegExp(`^version: ${version}$`, 'm'))
  })
})
