import { spawnSync } from 'node:child_process'
import { existsSync, realpathSync } from 'node:fs'
import type { Component } from './component.ts'

/**
 * Returns the Debian packages that own these files of this machine, each once, sorted by name. Files without
 * a package are ignored: on a machine without dpkg, all of them.
 */
export function debianComponents(paths: readonly string[]): readonly Component[] {
  // If /lib is a link to /usr/lib, a file has two paths, and dpkg knows only one of them.
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

/**
 * Returns the output of dpkg-query, or an empty text without dpkg. The exit code is ignored, since one file
 * without a package makes the whole search fail.
 */
function ask(...args: readonly string[]): string {
  return spawnSync('dpkg-query', [...args], { encoding: 'utf8' }).stdout ?? ''
}
