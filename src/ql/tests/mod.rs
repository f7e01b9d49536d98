mod reading;
mod round_trip;
