import { BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart } from 'echarts/charts'
import {
  AriaComponent,
  DataZoomComponent,
  GridComponent,
  LegendComponent,
  MarkAreaComponent,
  MarkLineComponent,
  MarkPointComponent,
  TooltipComponent,
  VisualMapComponent,
} from 'echarts/components'
import { type EChartsCoreOption, type EChartsType, init, use } from 'echarts/core'
import { CanvasRenderer, SVGRenderer } from 'echarts/renderers'
import { useEffect, useRef } from 'react'
import { useTheme } from '@/app/theme'
import { type Colours, colours } from '@/charts/colours'
import { SaveAs } from '@/charts/SaveAs'
import { type Rows, save } from '@/charts/saving'

use([
  BarChart,
  CustomChart,
  HeatmapChart,
  LineChart,
  ScatterChart,
  AriaComponent,
  DataZoomComponent,
  GridComponent,
  LegendComponent,
  MarkAreaComponent,
  MarkLineComponent,
  MarkPointComponent,
  TooltipComponent,
  VisualMapComponent,
  CanvasRenderer,
  SVGRenderer,
])

export interface ChartProps {
  /** Names the chart, and the files that it is saved as. */
  title: string
  /** What a reader who cannot see it must know: `12 runs, medians from 3.1 to 3.4 ms`. */
  says: string
  /** Made from the theme's colours; stable between renders (useMemo or useCallback). */
  option: (colours: Colours) => EChartsCoreOption
  /** The numbers that are drawn, for CSV. */
  rows: Rows
  /** How many points are drawn: from 5,000 on, on a canvas. */
  points: number
  height?: number
  onPick?: (picked: { seriesIndex: number; dataIndex: number; data: unknown }) => void
}

const CANVAS_FROM = 5_000

export default function Drawn({ title, says, option, rows, points, height = 280, onPick }: ChartProps) {
  const box = useRef<HTMLDivElement>(null)
  const chart = useRef<EChartsType | null>(null)
  const { shown } = useTheme()
  const renderer = points >= CANVAS_FROM ? 'canvas' : 'svg'
  // biome-ignore lint/correctness/useExhaustiveDependencies: `shown` changes what colours() reads
  useEffect(() => {
    if (box.current === null) return
    const made = init(box.current, null, { renderer })
    chart.current = made
    made.setOption(withDefaults(option(colours())))
    if (onPick)
      made.on('click', (at) => onPick({ seriesIndex: at.seriesIndex ?? 0, dataIndex: at.dataIndex, data: at.data }))
    const watch = new ResizeObserver(() => made.resize())
    watch.observe(box.current)
    return () => {
      watch.disconnect()
      made.dispose()
    }
  }, [option, renderer, shown, onPick])
  const picture = (type: 'png' | 'svg') => {
    if (box.current !== null) save(title, type, draw(option, type, box.current.clientWidth, height))
  }
  return (
    <figure className="chart" style={{ margin: 0 }}>
      <div ref={box} role="img" aria-label={`${title}: ${says}`} style={{ height }} />
      <figcaption className="chart-tools">
        <span className="quiet" style={{ marginRight: 'auto' }}>
          {says}
        </span>
        <SaveAs title={title} rows={rows} onPicture={picture} />
      </figcaption>
    </figure>
  )
}

/** What every chart has: no motion, our font, and tooltips that are drawn, never markup (content of users is in them). */
function withDefaults(option: EChartsCoreOption): EChartsCoreOption {
  const now = colours()
  return {
    animation: false,
    textStyle: { fontFamily: 'system-ui, sans-serif', color: now.ink },
    color: now.series,
    aria: { enabled: true, decal: { show: false } },
    ...option,
    tooltip: {
      renderMode: 'richText',
      confine: true,
      backgroundColor: now.raised,
      borderColor: now.line,
      textStyle: { color: now.ink, fontSize: 12 },
      ...(option.tooltip as object),
    },
  }
}

/** The chart once more, off the page, with the renderer that the file needs. */
function draw(option: ChartProps['option'], type: 'png' | 'svg', width: number, height: number): string {
  const made = init(document.createElement('div'), null, { renderer: type === 'svg' ? 'svg' : 'canvas', width, height })
  made.setOption(withDefaults(option(colours())))
  const url = made.getDataURL({ type, pixelRatio: 2, backgroundColor: colours().surface })
  made.dispose()
  return url
}
