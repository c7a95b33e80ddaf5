//! The row generators of the 24 tables behind one face.

use std::fmt::{self, Display, Write as _};
use std::ops::Range;

use tpcdsgen::config::{Session, Table};
use tpcdsgen::row::{
    CallCenterRowGenerator, CatalogPageRowGenerator, CatalogReturnsRowGenerator, CatalogSalesRowGenerator,
    CustomerAddressRowGenerator, CustomerDemographicsRowGenerator, CustomerRowGenerator, DateDimRowGenerator,
    DbgenVersionRowGenerator, HouseholdDemographicsRowGenerator, IncomeBandRowGenerator,
    InventoryRowGenerator, ItemRowGenerator, PromotionRowGenerator, ReasonRowGenerator, ShipModeRowGenerator,
    StoreReturnsRowGenerator, StoreRowGenerator, StoreSalesRowGenerator, TimeDimRowGenerator,
    WarehouseRowGenerator, WebPageRowGenerator, WebReturnsRowGenerator, WebSalesRowGenerator,
    WebSiteRowGenerator,
};

/// Rows as text, one after the other.
pub trait Rows: Send {
    /// Appends the next row, its values ending with `|` each. False when there is none.
    fn write_next(&mut self, line: &mut String) -> Result<bool, fmt::Error>;
}

impl<I> Rows for I
where
    I: Iterator<Item: Display> + Send,
{
    fn write_next(&mut self, line: &mut String) -> Result<bool, fmt::Error> {
        self.next().map_or(Ok(false), |row| write!(line, "{row}").map(|()| true))
    }
}

/// The rows that the source rows `range`, counted from 0, give. A source row is a row, but for sales
/// and returns it is an order with all its items.
pub fn open(table: Table, session: Session, range: Range<u64>) -> Box<dyn Rows> {
    macro_rules! rows {
        ($generator:ident) => {{
            let mut rows = $generator::new(session, range.end);
            rows.set_source_row_range(range.start + 1, range.end);
            Box::new(rows)
        }};
    }
    match table {
        Table::CallCenter => rows!(CallCenterRowGenerator),
        Table::CatalogPage => rows!(CatalogPageRowGenerator),
        Table::CatalogReturns => rows!(CatalogReturnsRowGenerator),
        Table::CatalogSales => rows!(CatalogSalesRowGenerator),
        Table::Customer => rows!(CustomerRowGenerator),
        Table::CustomerAddress => rows!(CustomerAddressRowGenerator),
        Table::CustomerDemographics => rows!(CustomerDemographicsRowGenerator),
        Table::DateDim => rows!(DateDimRowGenerator),
        Table::DbgenVersion => rows!(DbgenVersionRowGenerator),
        Table::HouseholdDemographics => rows!(HouseholdDemographicsRowGenerator),
        Table::IncomeBand => rows!(IncomeBandRowGenerator),
        Table::Inventory => rows!(InventoryRowGenerator),
        Table::Item => rows!(ItemRowGenerator),
        Table::Promotion => rows!(PromotionRowGenerator),
        Table::Reason => rows!(ReasonRowGenerator),
        Table::ShipMode => rows!(ShipModeRowGenerator),
        Table::Store => rows!(StoreRowGenerator),
        Table::StoreReturns => rows!(StoreReturnsRowGenerator),
        Table::StoreSales => rows!(StoreSalesRowGenerator),
        Table::TimeDim => rows!(TimeDimRowGenerator),
        Table::Warehouse => rows!(WarehouseRowGenerator),
        Table::WebPage => rows!(WebPageRowGenerator),
        Table::WebReturns => rows!(WebReturnsRowGenerator),
        Table::WebSales => rows!(WebSalesRowGenerator),
        Table::WebSite => rows!(WebSiteRowGenerator),
    }
}
