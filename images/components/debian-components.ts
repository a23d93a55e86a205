import { spawnSync } from 'node:child_process'
import { existsSync, realpathSync } from 'node:fs'
import type { Component } from './component.ts'

/**
 * The Debian packages that these files of this machine come from, each once, by name. Files of no package,
 * and all of them on a machine that is not Debian's, are left out.
 */
export function debianComponents(paths: readonly string[]): readonly Component[] {
  // The same file has several names where /lib is a link to /usr/lib, and dpkg knows one of them.
  const names = paths.flatMap(path => [path, realpathSync(path)])
  const search = new Set(names.flatMap(name => [name, name.replace(/^\/usr/, '')]))
  const found = [...ask('--search', ...search).matchAll(/^(\S+): \//gm)].map(([, owner = '']) => owner)
  const format = `\${Package} \${Version} \${Architecture}\n`
  const shown = found.length === 0 ? '' : ask('--show', '--showformat', format, ...new Set(found))
  return shown
    .trim()
    .split('\n')
    .filter(line => line !== '')
    .sort()
    .map(describe)
}

function describe(shown: string): Component {
  const [name = '', version = '', architecture = ''] = shown.split(' ')
  const copyright = `/usr/share/doc/${name}/copyright`
  return {
    name,
    version,
    purl: `pkg:deb/debian/${name}@${encodeURIComponent(version)}?arch=${architecture}`,
    licenseFiles: existsSync(copyright) ? [copyright] : [],
  }
}

/** It ends with 1 when it does not know one of many, and is not there on a machine that is not Debian's. */
function ask(...args: readonly string[]): string {
  return spawnSync('dpkg-query', [...args], { encoding: 'utf8' }).stdout ?? ''
}
