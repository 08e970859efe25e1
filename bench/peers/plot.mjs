/** Plots of `npm run bench:peers` as SVG, made by Vega. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** @param {{ dir: string, modules: string, rows: { system: string, row: string, rate: number }[] }} plots */
export async function plotRates({ dir, modules, rows }) {
  const vega = await import(`${modules}/vega/build/vega.module.js`)
  const { compile } = await import(`${modules}/vega-lite/build/index.js`)
  mkdirSync(dir, { recursive: true })
  for (const row of new Set(rows.map((each) => each.row))) {
    const { spec } = compile({
      title: `${row}, jobs/s`,
      data: { values: rows.filter((each) => each.row === row) },
      mark: 'bar',
      encoding: {
        y: { field: 'system', type: 'nominal', sort: '-x', title: null },
        x: { field: 'rate', type: 'quantitative', title: 'jobs/s' },
      },
      width: 480,
    })
    const view = new vega.View(vega.parse(spec), { renderer: 'none' })
    writeFileSync(join(dir, `peers-${row}.svg`), await view.toSVG())
  }
}
